"""What a study consists of: settings, arms, its folder, and the prepared data that every job reads."""
