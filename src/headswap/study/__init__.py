"""Study: plan and run arms x budgets x seeds, compute statistics, write the report."""
