//! Threads for work that may block, such as reading from a slow disk, so that a network loop never waits for it.
//!
//! A job returns a value, which the loop receives with the job's key after its alarm was rung. Each key should have
//! at most one job at a time; then the queue is as long as there are keys, and each key gets its turn. Background jobs
//! run on half of the threads only: hashing a large file never takes the last thread from those who read. If no thread
//! takes jobs any more, because a disk does not answer, others help.

use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rampmeter_net::Alarm;

type Job<R> = Box<dyn FnOnce() -> R + Send>;

/// Which jobs run first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Another host waits for bytes.
    Urgent,
    /// Hashing: a client chooses its amount with a short request.
    Background,
}

/// The maximum number of threads that help when the others are blocked.
const MAX_HELPERS: usize = 256;

/// How long a helper waits for another job.
const HELPER_TIME: Duration = Duration::from_secs(2);

/// A pool of threads.
pub(crate) struct Pool<K, R> {
    shared: Arc<Shared<K, R>>,
    results: Receiver<(K, R)>,
}

struct Shared<K, R> {
    queues: Mutex<Queues<K, R>>,
    changed: Condvar,
    threads: usize,
    sender: Sender<(K, R)>,
    alarm: Alarm,
}

struct Queues<K, R> {
    urgent: Queue<K, R>,
    background: Queue<K, R>,
    background_running: usize,
    helpers: usize,
    is_closed: bool,
}

/// The jobs of a class that wait.
struct Queue<K, R> {
    jobs: VecDeque<(K, Job<R>)>,
    /// How many were taken from here so far.
    taken: u64,
    /// The same at the last call of `stalled`, if jobs waited then.
    taken_before: Option<u64>,
}

impl<K, R> Queue<K, R> {
    const EMPTY: Self = Self { jobs: VecDeque::new(), taken: 0, taken_before: None };

    fn take(&mut self) -> Option<(K, Job<R>)> {
        self.taken += u64::from(!self.jobs.is_empty());
        self.jobs.pop_front()
    }

    /// The number of jobs that wait, if some have waited since the last call and none was taken.
    fn stalled(&mut self) -> usize {
        let taken = (!self.jobs.is_empty()).then_some(self.taken);
        let before = std::mem::replace(&mut self.taken_before, taken);
        if taken.is_some() && before == taken { self.jobs.len() } else { 0 }
    }
}

impl<K, R> Queues<K, R> {
    fn of(&mut self, class: Class) -> &mut Queue<K, R> {
        match class {
            Class::Urgent => &mut self.urgent,
            Class::Background => &mut self.background,
        }
    }
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
        let queues = Queues {
            urgent: Queue::EMPTY,
            background: Queue::EMPTY,
            background_running: 0,
            helpers: 0,
            is_closed: false,
        };
        let (sender, results) = channel();
        let (queues, changed, alarm) = (Mutex::new(queues), Condvar::new(), alarm.clone());
        let pool = Self { shared: Arc::new(Shared { queues, changed, threads, sender, alarm }), results };
        for _ in 0..threads {
            pool.spawn(Shared::work)?;
        }
        Ok(pool)
    }

    fn spawn(&self, work: impl FnOnce(&Shared<K, R>) + Send + 'static) -> std::io::Result<()> {
        let shared = Arc::clone(&self.shared);
        std::thread::Builder::new().name("rampmeter-disk".into()).spawn(move || work(&shared)).map(drop)
    }

    /// Runs `job` in a thread.
    pub(crate) fn submit(&self, key: K, class: Class, job: impl FnOnce() -> R + Send + 'static) {
        let mut queues = self.shared.queues();
        queues.of(class).jobs.push_back((key, Box::new(job)));
        let has_helpers = queues.helpers > 0;
        drop(queues);
        // A helper may wait for jobs of the other class.
        if has_helpers { self.shared.changed.notify_all() } else { self.shared.changed.notify_one() }
    }

    /// The next result.
    pub(crate) fn poll(&self) -> Option<(K, R)> {
        self.results.try_recv().ok()
    }

    /// Starts a helper for each job that has waited since the last call, if no job of its class was taken since then: a
    /// disk does not answer, and others may. To be called at times that are longer than a job takes.
    pub(crate) fn help_stalled(&self) {
        for class in [Class::Urgent, Class::Background] {
            let mut queues = self.shared.queues();
            let helpers = queues.of(class).stalled().min(MAX_HELPERS - queues.helpers);
            queues.helpers += helpers;
            drop(queues);
            for _ in 0..helpers {
                if self.spawn(move |shared| shared.help(class)).is_err() {
                    self.shared.queues().helpers -= 1;
                }
            }
        }
    }
}

/// A helper at work, or one that panics.
struct Helper<'a, K, R>(&'a Shared<K, R>);

impl<K, R> Drop for Helper<'_, K, R> {
    fn drop(&mut self) {
        self.0.queues().helpers -= 1;
    }
}

impl<K, R> Drop for Pool<K, R> {
    /// Ends the threads. They are not waited for: one may be blocked by a disk that does not answer.
    fn drop(&mut self) {
        let mut queues = self.shared.queues();
        queues.is_closed = true;
        queues.urgent.jobs.clear();
        queues.background.jobs.clear();
        drop(queues);
        self.shared.changed.notify_all();
    }
}

impl<K, R> Shared<K, R> {
    fn queues(&self) -> MutexGuard<'_, Queues<K, R>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some((key, job, class)) = self.next() {
            let result = job();
            if class == Class::Background {
                self.queues().background_running -= 1;
                self.changed.notify_one();
            }
            self.report(key, result);
        }
    }

    /// Does jobs beside the pool's own threads, until there is none for a while.
    fn help(&self, class: Class) {
        let _helper = Helper(self);
        while let Some((key, job)) = self.next_of(class) {
            let result = job();
            self.report(key, result);
        }
    }

    fn next_of(&self, class: Class) -> Option<(K, Job<R>)> {
        let has_none = |queues: &mut Queues<K, R>| !queues.is_closed && queues.of(class).jobs.is_empty();
        let waited = self.changed.wait_timeout_while(self.queues(), HELPER_TIME, has_none);
        let (mut queues, _) = waited.unwrap_or_else(PoisonError::into_inner);
        queues.of(class).take()
    }

    fn report(&self, key: K, result: R) {
        // Nobody is left to receive it after the end of the pool.
        let _ = self.sender.send((key, result));
        self.alarm.ring();
    }

    fn next(&self) -> Option<(K, Job<R>, Class)> {
        let mut queues = self.queues();
        loop {
            if queues.is_closed {
                return None;
            }
            if let Some((key, job)) = queues.urgent.take() {
                return Some((key, job, Class::Urgent));
            }
            if queues.background_running < self.threads / 2 {
                if let Some((key, job)) = queues.background.take() {
                    queues.background_running += 1;
                    return Some((key, job, Class::Background));
                }
            }
            queues = self.changed.wait(queues).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use rampmeter_control::newreno::NewReno;
    use rampmeter_net::EventLoop;

    use super::*;

    fn next(pool: &Pool<u8, u8>) -> (u8, u8) {
        for _ in 0..5000 {
            match pool.poll() {
                Some(result) => return result,
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        panic!("no result in five seconds");
    }

    pub(crate) fn wait_until(condition: impl Fn() -> bool) {
        for _ in 0..5000 {
            if condition() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("not in five seconds");
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

    #[test]
    fn blocked_threads_get_help_and_busy_ones_none() {
        let mut net = EventLoop::<NewReno>::new(1500).unwrap();
        let pool = Pool::new(2, &net.alarm().unwrap()).unwrap();
        let (release, blocked) = channel::<()>();
        let blocked = Arc::new(Mutex::new(blocked));
        for key in 0..5 {
            let blocked = Arc::clone(&blocked);
            pool.submit(key, Class::Urgent, move || {
                let _ = blocked.lock().unwrap().recv();
                key
            });
        }
        let taken = || pool.shared.queues().urgent.taken;
        wait_until(|| taken() == 2);
        pool.help_stalled();
        release.send(()).unwrap();
        next(&pool);
        wait_until(|| taken() == 3);
        pool.help_stalled();
        assert_eq!(pool.shared.queues().helpers, 0, "a job was taken since the last call");
        pool.help_stalled();
        wait_until(|| taken() == 5);
        for class in [Class::Urgent, Class::Background] {
            pool.submit(100, class, || 101);
        }
        pool.help_stalled();
        assert_eq!(pool.poll(), None);
        pool.help_stalled();
        assert_eq!([next(&pool), next(&pool)], [(100, 101); 2]);
        drop(release);
        wait_until(|| pool.shared.queues().helpers == 0);
    }
}
