"""Inference: predict, embed, evaluate and generate with a trained model."""
