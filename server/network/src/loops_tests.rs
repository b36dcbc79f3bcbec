use super::*;

fn loops(loops: usize, cores: &[usize]) -> NetworkLoops {
    let shares = Shares::whole(16);
    NetworkLoops::new(Settings { loops, cores: cores.to_vec(), shares })
}

fn cores_of(loops: &NetworkLoops, owner: Holder) -> Vec<Option<usize>> {
    let its = loops.each().iter().filter(|state| state.owner == owner);
    its.map(|state| state.core).collect()
}

#[test]
fn who_may_have_fewer_loops_than_there_are_cores_keeps_those_that_were_started() {
    let sealed = Holder::user(1).sealed_by(7);
    let mut its = loops(2, &[0, 1]);
    assert!(its.of(sealed).is_ok());
    assert_eq!(cores_of(&its, sealed), [Some(0)]);
    let mut asked = loops(1, &[]);
    assert!(asked.on_cores(sealed, &[1, 0]).is_ok());
    assert_eq!(cores_of(&asked, sealed), [Some(1)]);
}

#[test]
fn a_user_whose_share_is_full_ends_nobody_elses() {
    let (user, other) = (Holder::user(1), Holder::user(2));
    let mut all = loops(1, &[]);
    let others = all.on_cores(other, &[100]).unwrap();
    let cores: Vec<usize> = (0..LOOPS.user as usize + 1).collect();
    assert!(all.on_cores(user, &cores).is_ok());
    assert_eq!(cores_of(&all, user).len() as u64, LOOPS.user);
    assert_eq!(all.on_cores(other, &[100]).unwrap(), others);
}
