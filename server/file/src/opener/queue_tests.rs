//! Threads that hang are their owners' loss.

use super::*;

fn job(session: u32, uid: u32, now: Instant) -> Job<u32> {
    let session = ObjectId { index: session, generation: 1 };
    let holder = if uid == 0 { Holder::trusted(0) } else { Holder::user(uid) };
    Job { owner: Owner { session, holder }, due: now, until: now, item: session.index }
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
fn users_whose_file_systems_hang_leave_threads_to_others_and_more_to_root() {
    let (mut queue, now, shares) = (Queue::default(), Instant::now(), SHARES);
    let mut session = 0;
    let mut hang = |queue: &mut Queue<u32>, uid| {
        for _ in 0..shares.all {
            session += 1;
            queue.push(job(session, uid, now), now).unwrap();
        }
        std::iter::from_fn(|| taken(queue, now)).count() as u64
    };
    assert_eq!(hang(&mut queue, 1), shares.user);
    let others: u64 = (2..40).map(|uid| hang(&mut queue, uid)).sum();
    assert_eq!(shares.user + others, shares.all - shares.reserve / 2, "newcomers have their part");
    assert_eq!(hang(&mut queue, 0), shares.reserve / 2, "and root the rest");
    let late = now + STUCK;
    assert!(queue.push(job(session + 1, 50, late), late).is_err());
}

#[test]
fn what_is_due_later_does_not_hold_up_what_is_due() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    let later = now + Duration::from_millis(1);
    assert!(queue.put_back(0, vec![Job { due: later, ..job(1, 0, now) }]).is_empty());
    assert_eq!((taken(&mut queue, now), queue.due()), (None, Some(later)));
    queue.push(job(2, 0, now), now).unwrap();
    assert_eq!(taken(&mut queue, now), Some(2));
    assert_eq!(taken(&mut queue, later), Some(1));
}

#[test]
fn a_session_and_a_user_have_so_many_names_in_line_and_others_still_have_room() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    let mut fill = |session, uid| {
        (0..).take_while(|_| queue.push(job(session, uid, now), now).is_ok()).count()
    };
    assert_eq!(fill(1, 1), WAITING_SESSION_MAX);
    let of_others: usize = (2..20).map(|session| fill(session, 1)).sum();
    assert_eq!((WAITING_SESSION_MAX + of_others) as u64, WAITING.user);
    assert_eq!(fill(20, 2), WAITING_SESSION_MAX, "another user");
    assert_eq!(fill(21, 0), WAITING_SESSION_MAX, "and root");
}

#[test]
fn names_of_a_delegation_that_has_ended_are_taken_out_and_do_not_come_back() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    for session in [1, 1, 2, 1] {
        queue.push(job(session, 0, now), now).unwrap();
    }
    let (ticket, away) = queue.take(now).unwrap();
    assert_eq!(queue.forget(away.owner.session).len(), 2);
    assert_eq!(queue.put_back(ticket, vec![away])[0].item, 1);
    let (ticket, other) = queue.take(now).unwrap();
    assert!(queue.put_back(ticket, vec![other]).is_empty());
    queue.push(job(1, 0, now), now).unwrap();
    assert_eq!([(); 3].map(|()| taken(&mut queue, now)), [Some(2), Some(1), None]);
}

#[test]
fn a_thread_takes_what_is_alike_of_its_session_and_the_rest_keeps_its_order() {
    let (mut queue, now) = (Queue::default(), Instant::now());
    let later = now + Duration::from_millis(1);
    let of = |session, item| Job { item, ..job(session, 0, now) };
    for job in [of(1, 10), of(2, 11), of(1, 12), of(1, 3), of(1, 14), of(1, 16)] {
        queue.push(job, now).unwrap();
    }
    queue.push(Job { due: later, ..of(1, 18) }, now).unwrap();
    let (ticket, first) = queue.take(now).unwrap();
    let session = first.owner.session;
    let taken: Vec<u32> = queue
        .take_alike(session, now, (2, |item: &u32| item % 2 == 0))
        .into_iter()
        .map(|job| job.item)
        .collect();
    assert_eq!((first.item, taken), (10, vec![12, 14]));
    queue.release(ticket);
    let rest: Vec<u32> =
        std::iter::from_fn(|| queue.take(later)).map(|(_, job)| job.item).collect();
    assert_eq!(rest, [11, 3, 16], "and two threads are what the session may have");
}
