//! Why a body or a type is refused.

use crate::errors::Failure;
use crate::exit::Exit;

/// What a client sent is wrong.
pub(super) fn invalid(message: impl Into<String>) -> Failure {
    Failure::new(Exit::Failed, "invalid-input", message)
}

/// What a client sent may be right, and is not read here.
pub(super) fn unsupported(message: impl Into<String>) -> Failure {
    Failure::new(Exit::Failed, "unsupported", message)
}

/// What a client sent is larger than what is read.
pub(super) fn too_large(message: impl Into<String>) -> Failure {
    Failure::new(Exit::Limit, "limit-exceeded", message)
}
