//! The number of files and sockets that the process may open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one: each probe in progress and each idle connection needs a socket. Most
/// systems have a soft limit of 1024. A refusal is no error.
pub fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => tracing::debug!(?current, ?maximum, "the limit of open files was raised"),
        Err(error) => {
            tracing::info!(%error, ?current, ?maximum, "the limit of open files cannot be raised");
        }
    }
}
