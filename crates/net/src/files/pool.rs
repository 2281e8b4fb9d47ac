//! Threads for work that may block, such as reading from a slow disk, so that a network loop never waits for it.
//!
//! A job returns a value, which the loop receives with the job's key after its alarm was rung. Each key should have
//! at most one job at a time; then the queue is as long as there are keys, and each key gets its turn. Background jobs
//! run on half of the threads only: hashing a large file never takes the last thread from those who read.

use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::driver::Alarm;

type Job<R> = Box<dyn FnOnce() -> R + Send>;

/// Which jobs run first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Another host waits for bytes.
    Urgent,
    /// Work whose amount a client chooses with a short request: hashes, lists, writing all changes to the disk.
    Background,
}

/// A pool of threads.
pub(crate) struct Pool<K, R> {
    shared: Arc<Shared<K, R>>,
    results: Receiver<(K, R)>,
}

struct Shared<K, R> {
    queue: Mutex<Queue<K, R>>,
    changed: Condvar,
    threads: usize,
}

struct Queue<K, R> {
    urgent: VecDeque<(K, Job<R>)>,
    background: VecDeque<(K, Job<R>)>,
    background_running: usize,
    is_closed: bool,
}

impl<K, R> fmt::Debug for Pool<K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("threads", &self.shared.threads).finish_non_exhaustive()
    }
}

impl<K: Send + 'static, R: Send + 'static> Pool<K, R> {
    /// Starts `threads` threads, at least two.
    pub(crate) fn new(threads: usize, alarm: &Alarm) -> std::io::Result<Self> {
        let threads = threads.max(2);
        let queue =
            Queue { urgent: VecDeque::new(), background: VecDeque::new(), background_running: 0, is_closed: false };
        let shared = Arc::new(Shared { queue: Mutex::new(queue), changed: Condvar::new(), threads });
        let (sender, results) = channel();
        for _ in 0..threads {
            let (shared, sender, alarm) = (Arc::clone(&shared), sender.clone(), alarm.clone());
            std::thread::Builder::new().name("rampmeter-disk".into()).spawn(move || shared.work(&sender, &alarm))?;
        }
        Ok(Self { shared, results })
    }

    /// Runs `job` in a thread.
    pub(crate) fn submit(&self, key: K, class: Class, job: impl FnOnce() -> R + Send + 'static) {
        let mut queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        match class {
            Class::Urgent => queue.urgent.push_back((key, Box::new(job))),
            Class::Background => queue.background.push_back((key, Box::new(job))),
        }
        drop(queue);
        self.shared.changed.notify_one();
    }

    /// The next result.
    pub(crate) fn poll(&self) -> Option<(K, R)> {
        self.results.try_recv().ok()
    }
}

impl<K, R> Drop for Pool<K, R> {
    /// Ends the threads. They are not waited for: one may be blocked by a disk that does not answer.
    fn drop(&mut self) {
        let mut queue = self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.is_closed = true;
        queue.urgent.clear();
        queue.background.clear();
        drop(queue);
        self.shared.changed.notify_all();
    }
}

impl<K, R> Shared<K, R> {
    fn work(&self, results: &Sender<(K, R)>, alarm: &Alarm) {
        while let Some((key, job, class)) = self.next() {
            let result = job();
            if class == Class::Background {
                self.queue.lock().unwrap_or_else(PoisonError::into_inner).background_running -= 1;
                self.changed.notify_one();
            }
            if results.send((key, result)).is_err() {
                return;
            }
            alarm.ring();
        }
    }

    fn next(&self) -> Option<(K, Job<R>, Class)> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if queue.is_closed {
                return None;
            }
            if let Some((key, job)) = queue.urgent.pop_front() {
                return Some((key, job, Class::Urgent));
            }
            if queue.background_running < self.threads / 2 {
                if let Some((key, job)) = queue.background.pop_front() {
                    queue.background_running += 1;
                    return Some((key, job, Class::Background));
                }
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rampmeter_control::newreno::NewReno;

    use super::*;
    use crate::driver::EventLoop;

    fn next(pool: &Pool<u8, u8>) -> (u8, u8) {
        for _ in 0..5000 {
            match pool.poll() {
                Some(result) => return result,
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        panic!("no result in five seconds");
    }

    #[test]
    fn blocked_background_jobs_leave_threads_for_urgent_ones() {
        let mut net = EventLoop::<NewReno>::new(1500).unwrap();
        let pool = Pool::new(2, &net.alarm().unwrap()).unwrap();
        let (release, blocked) = channel::<()>();
        let blocked = Arc::new(Mutex::new(blocked));
        for key in 0..10 {
            let blocked = Arc::clone(&blocked);
            pool.submit(key, Class::Background, move || {
                blocked.lock().unwrap().recv().unwrap();
                key
            });
        }
        for key in 100..200 {
            pool.submit(key, Class::Urgent, move || key + 1);
            assert_eq!(next(&pool), (key, key + 1));
        }
        for key in 0..10 {
            release.send(()).unwrap();
            assert_eq!(next(&pool), (key, key), "background jobs end in their order");
        }
    }
}
