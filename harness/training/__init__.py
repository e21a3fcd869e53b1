"""Training: tokenizer, batches, objectives, the loop, and the store of what came out.

A base model is trained once a task and seed; each method's own checkpoint is that base trained on under the method's
recipe, for the same steps, batches and learning rates as every other method's, `full` included.
"""

from .recipe import TRAINING_VERSION, Recipe
from .setting import Checkpoint, Setting
from .store import Checkpoints
from .weights import model_identity, weights_identity

__all__ = ["TRAINING_VERSION", "Checkpoint", "Checkpoints", "Recipe", "Setting", "model_identity", "weights_identity"]
