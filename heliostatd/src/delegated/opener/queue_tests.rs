//! Threads that hang are their owners' loss.

use super::*;

fn job(session: u32, uid: u32, now: Instant) -> Job<u32> {
    let session = ObjectId { index: session, generation: 1 };
    Job { owner: Owner { session, uid }, due: now, until: now, item: session.index }
}

fn taken(queue: &mut Queue<u32>, now: Instant) -> Option<u32> {
    queue.take(now).map(|(_, job)| job.item)
}

#[test]
fn a_session_holds_two_threads_and_the_next_session_is_served() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    for session in [1, 1, 1, 2] {
        queue.push(job(session, 0, now), now).unwrap();
    }
    assert_eq!([(); 4].map(|()| taken(&mut queue, now)), [Some(1), Some(1), Some(2), None]);
    assert_eq!(queue.due(), None, "what may not go is not waited for");
}

#[test]
fn who_waits_behind_own_threads_that_hang_is_told_at_once() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    for _ in 0..2 {
        queue.push(job(1, 0, now), now).unwrap();
    }
    let tickets = [(); 2].map(|()| queue.take(now).unwrap().0);
    queue.push(job(1, 0, now), now + STUCK / 2).unwrap();
    let late = now + STUCK;
    assert_eq!(queue.push(job(1, 0, late), late).unwrap_err().item, 1);
    queue.push(job(2, 0, late), late).unwrap();
    queue.release(tickets[0]);
    queue.push(job(1, 0, late), late).unwrap();
    assert_eq!([(); 3].map(|()| taken(&mut queue, late)), [Some(1), Some(2), None]);
}

#[test]
fn one_user_holds_half_of_the_threads_and_all_is_the_end() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    for session in 0..20 {
        queue.push(job(session, 1, now), now).unwrap();
    }
    while taken(&mut queue, now).is_some() {}
    assert_eq!(queue.away.len(), USER_MAX);
    for session in 20..40 {
        queue.push(job(session, session, now), now).unwrap();
    }
    while taken(&mut queue, now).is_some() {}
    assert_eq!(queue.away.len(), THREADS_MAX);
    let late = now + STUCK;
    assert!(queue.push(job(50, 50, late), late).is_err());
}

#[test]
fn what_is_due_later_does_not_hold_up_what_is_due() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    let later = now + Duration::from_millis(1);
    queue.put_back(Job { due: later, ..job(1, 0, now) });
    assert_eq!((taken(&mut queue, now), queue.due()), (None, Some(later)));
    queue.push(job(2, 0, now), now).unwrap();
    assert_eq!(taken(&mut queue, now), Some(2));
    assert_eq!(taken(&mut queue, later), Some(1));
}
