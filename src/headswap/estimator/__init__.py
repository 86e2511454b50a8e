"""Estimators of scikit-learn: `TextClassifier`, `TextRegressor` and `TextEmbedder`. `import headswap` exposes them."""
