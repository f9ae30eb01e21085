//! Tasks that run as long as the daemon. One that ends or panics is a crash of the daemon.
//!
//! Must not know what the tasks do.

use std::collections::HashMap;

use tokio::task::{Id, JoinError, JoinSet};

/// A task that ended by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EndedTask {
    pub task: &'static str,
    pub why: String,
}

/// The running tasks. Dropping the set aborts them.
#[derive(Debug, Default)]
pub(super) struct SupervisedTasks {
    tasks: JoinSet<()>,
    names: HashMap<Id, &'static str>,
}

impl SupervisedTasks {
    /// Starts a task that must not end.
    pub fn start(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.names.insert(self.tasks.spawn(task).id(), name);
    }

    /// Starts a task that may complete. Only a panic is a crash.
    pub fn start_once(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.start(name, async move {
            task.await;
            std::future::pending::<()>().await;
        });
    }

    /// Waits for the first task that ends.
    pub async fn ended(&mut self) -> EndedTask {
        let Some(ended) = self.tasks.join_next_with_id().await else {
            return std::future::pending().await;
        };
        let id = ended.as_ref().map_or_else(JoinError::id, |&(id, ())| id);
        let task = self.names.remove(&id).unwrap_or("task");
        EndedTask {
            task,
            why: ended.map_or_else(|error| error.to_string(), |_| "without a reason".to_owned()),
        }
    }

    /// Aborts all tasks.
    pub fn abort(&mut self) {
        self.tasks.abort_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_ends_or_panics_is_reported_with_its_name() {
        let mut tasks = SupervisedTasks::default();
        tasks.start("endless", std::future::pending());
        tasks.start_once("completed", async {});
        tasks.start("ended", async {});
        let ended = EndedTask { task: "ended", why: "without a reason".to_owned() };
        assert_eq!(tasks.ended().await, ended);
        tasks.start_once("panicked", async { panic!("the reason") });
        let panicked = tasks.ended().await;
        assert_eq!(panicked.task, "panicked");
        assert!(panicked.why.contains("the reason"), "{panicked:?}");
    }
}
