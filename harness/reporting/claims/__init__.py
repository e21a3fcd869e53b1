"""The papers' claims: what is compared, how, and the verdict."""
