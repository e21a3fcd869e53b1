"""Seeded generators, one a task, that take the place of data which cannot be had.

They resemble the real data in what matters to a study of skipped layers: lengths near the real medians, a vocabulary a
model of 12 layers x 128 learns in a few hundred steps, several references where the real data has them, and a start of
the output that is harder to guess than its end. Every name in them is invented. Scores on them say nothing about any
real data set. A seed is a string, which `random.Random` turns into the same stream on every machine.
"""
