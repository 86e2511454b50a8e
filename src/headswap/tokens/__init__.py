"""Tokens: tokenizers and token stores."""
