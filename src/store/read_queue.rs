//! Reads for many probes at once.
//!
//! Requests that arrive while others are read are answered together, with a few statements for all of them.

use tokio::sync::{mpsc, oneshot};

use super::StoreError;

/// Requests that are answered together.
const TOGETHER: usize = 128;

type Waiting<Q, A> = (Q, oneshot::Sender<Result<A, String>>);

/// A queue of requests, which one task answers.
#[derive(Debug)]
pub(super) struct ReadQueue<Q, A>(mpsc::UnboundedSender<Waiting<Q, A>>);

impl<Q, A> Clone for ReadQueue<Q, A> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<Q: Send + 'static, A: Send + 'static> ReadQueue<Q, A> {
    /// Starts the task. It ends with the last clone. `read` returns one answer for each request, in order.
    pub(super) fn start<F>(read: impl Fn(Vec<Q>) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<Vec<A>, StoreError>> + Send,
    {
        let (requests, mut queue) = mpsc::unbounded_channel::<Waiting<Q, A>>();
        tokio::spawn(async move {
            let mut batch = Vec::with_capacity(TOGETHER);
            while queue.recv_many(&mut batch, TOGETHER).await > 0 {
                // Probes that can run now may add their requests.
                tokio::task::yield_now().await;
                while batch.len() < TOGETHER
                    && let Ok(more) = queue.try_recv()
                {
                    batch.push(more);
                }
                let (asked, replies): (Vec<Q>, Vec<_>) = batch.drain(..).unzip();
                match read(asked).await {
                    Ok(answers) => replies.into_iter().zip(answers).for_each(|(reply, answer)| {
                        let _ = reply.send(Ok(answer));
                    }),
                    Err(error) => replies.into_iter().for_each(|reply| {
                        let _ = reply.send(Err(error.to_string()));
                    }),
                }
            }
        });
        Self(requests)
    }

    /// Completes when the task has ended: after a panic.
    pub(super) async fn ended(&self) {
        self.0.closed().await;
    }

    /// The answer, or the reason why the store cannot be read.
    pub(super) async fn get(&self, request: Q) -> Result<A, String> {
        let (reply, answer) = oneshot::channel();
        // Fails only if the task ended.
        let _ = self.0.send((request, reply));
        answer.await.unwrap_or_else(|_| Err(StoreError::Stopped.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_while_reading_ends_the_queue() {
        let queue = ReadQueue::start(async |asked: Vec<u8>| {
            assert!(!asked.contains(&7), "the reason");
            Ok(asked)
        });
        assert_eq!(queue.get(1).await, Ok(1));
        assert!(queue.get(7).await.is_err());
        queue.ended().await;
    }
}
