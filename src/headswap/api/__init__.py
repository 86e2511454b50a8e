"""The Python interface: functions that train, and the objects they return. `import headswap` exposes it."""
