//! What is asked and answered: requests and answers as bytes, which are the payload of a call.
//!
//! ```text
//! request  0 get: key            1 list: prefix, key?        2 write: key, expected, value?, leased, guard?
//!          3 lease: ms           4 keep alive   5 end lease  6 watch: prefix, after
//! answer   0 found: record       1 absent: revision          2 listed: records, revision, more
//!          3 done: revision      4 conflict: record?         5 unguarded
//!          6 not done: why       7 unknown: why              8 changes: changes, upto   9 broken
//! ```

use heliostat_backend_registry::{
    Change, Guard, Key, Operation, Outcome, Record, Watched, Why, Write, LISTED_MAX,
};

use crate::take::{Put, Take};

/// What another node asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Request {
    Do(Operation),
    Watch { prefix: Key, after: u64 },
}

/// What it is answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Ended(Outcome),
    Watched(Watched),
}

impl Request {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let put = Put::default();
        let put = match self {
            Request::Do(Operation::Get { key }) => put.byte(0).key(key),
            Request::Do(Operation::List { prefix, after }) => {
                put.byte(1).key(prefix).maybe(after.as_ref(), Put::key)
            }
            Request::Do(Operation::Write(write)) => {
                let put = put.byte(2).key(&write.key).number(write.expected);
                put.maybe(write.value.as_ref(), |put, value| put.long(value.bytes()))
                    .byte(u8::from(write.is_leased))
                    .maybe(write.guard.as_ref(), |put, it| put.key(&it.key).number(it.revision))
            }
            Request::Do(Operation::Lease { ttl_ms }) => put.byte(3).number(*ttl_ms),
            Request::Do(Operation::KeepAlive) => put.byte(4),
            Request::Do(Operation::EndLease) => put.byte(5),
            Request::Watch { prefix, after } => put.byte(6).key(prefix).number(*after),
        };
        put.0
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Request> {
        let mut take = Take(bytes);
        let request = match take.byte()? {
            0 => Request::Do(Operation::Get { key: take.key()? }),
            1 => {
                let (prefix, after) = (take.key()?, take.maybe(Take::key)?);
                Request::Do(Operation::List { prefix, after })
            }
            2 => {
                let (key, expected) = (take.key()?, take.number()?);
                let (value, is_leased) = (take.maybe(Take::value)?, take.is_true()?);
                let guard =
                    take.maybe(|it| Some(Guard { key: it.key()?, revision: it.number()? }))?;
                Request::Do(Operation::Write(Write { key, expected, value, is_leased, guard }))
            }
            3 => Request::Do(Operation::Lease { ttl_ms: take.number()? }),
            4 => Request::Do(Operation::KeepAlive),
            5 => Request::Do(Operation::EndLease),
            6 => Request::Watch { prefix: take.key()?, after: take.number()? },
            _ => return None,
        };
        take.0.is_empty().then_some(request)
    }
}

fn put_record(put: Put, record: &Record) -> Put {
    put.key(&record.key).number(record.revision).long(record.value.bytes())
}

fn take_record(take: &mut Take<'_>) -> Option<Record> {
    Some(Record { key: take.key()?, revision: take.number()?, value: take.value()? })
}

fn put_change(put: Put, change: &Change) -> Put {
    let put = put.key(&change.key).number(change.revision);
    put.maybe(change.value.as_ref(), |put, value| put.long(value.bytes()))
}

fn take_change(take: &mut Take<'_>) -> Option<Change> {
    let (key, revision) = (take.key()?, take.number()?);
    Some(Change { key, revision, value: take.maybe(Take::value)? })
}

fn put_why(put: Put, why: &Why) -> Put {
    match why {
        Why::NoLease => put.byte(0),
        Why::Refused(why) => put.byte(1).long(why.as_bytes()),
        other => put.byte(1).long(other.to_string().as_bytes()),
    }
}

fn take_why(take: &mut Take<'_>) -> Option<Why> {
    match take.byte()? {
        0 => Some(Why::NoLease),
        1 => Some(Why::Refused(take.text()?)),
        _ => None,
    }
}

impl Answer {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let put = Put::default();
        let put = match self {
            Answer::Ended(Outcome::Found(record)) => put_record(put.byte(0), record),
            Answer::Ended(Outcome::Absent { revision }) => put.byte(1).number(*revision),
            Answer::Ended(Outcome::Listed { records, revision, has_more }) => {
                let put = put.byte(2).several(records, put_record);
                put.number(*revision).byte(u8::from(*has_more))
            }
            Answer::Ended(Outcome::Done { revision }) => put.byte(3).number(*revision),
            Answer::Ended(Outcome::Conflict { found }) => {
                put.byte(4).maybe(found.as_ref(), put_record)
            }
            Answer::Ended(Outcome::Unguarded) => put.byte(5),
            Answer::Ended(Outcome::NotDone(why)) => put_why(put.byte(6), why),
            Answer::Ended(Outcome::Unknown(why)) => put_why(put.byte(7), why),
            Answer::Watched(Watched::Changes { changes, upto }) => {
                put.byte(8).several(changes, put_change).number(*upto)
            }
            Answer::Watched(Watched::Broken) => put.byte(9),
        };
        put.0
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Answer> {
        let mut take = Take(bytes);
        let answer = match take.byte()? {
            0 => Answer::Ended(Outcome::Found(take_record(&mut take)?)),
            1 => Answer::Ended(Outcome::Absent { revision: take.number()? }),
            2 => {
                let records = take.several(LISTED_MAX, take_record)?;
                let (revision, has_more) = (take.number()?, take.is_true()?);
                Answer::Ended(Outcome::Listed { records, revision, has_more })
            }
            3 => Answer::Ended(Outcome::Done { revision: take.number()? }),
            4 => Answer::Ended(Outcome::Conflict { found: take.maybe(take_record)? }),
            5 => Answer::Ended(Outcome::Unguarded),
            6 => Answer::Ended(Outcome::NotDone(take_why(&mut take)?)),
            7 => Answer::Ended(Outcome::Unknown(take_why(&mut take)?)),
            8 => {
                let changes = take.several(LISTED_MAX, take_change)?;
                Answer::Watched(Watched::Changes { changes, upto: take.number()? })
            }
            9 => Answer::Watched(Watched::Broken),
            _ => return None,
        };
        take.0.is_empty().then_some(answer)
    }
}

#[cfg(test)]
mod tests {
    use heliostat_backend_registry::Value;

    use super::*;

    fn key(text: &str) -> Key {
        Key::parse(text).unwrap()
    }

    fn record() -> Record {
        Record { key: key("a/1"), revision: 7, value: Value::new(vec![1, 2]).unwrap() }
    }

    fn requests() -> Vec<Request> {
        let guard = Some(Guard { key: key("members/1"), revision: 9 });
        let (value, is_leased) = (Value::new(vec![0; 4096]), true);
        let write = Write { key: key("a"), expected: 3, value, is_leased, guard };
        let delete = Write { value: None, guard: None, ..write.clone() };
        vec![
            Request::Do(Operation::Get { key: key("a") }),
            Request::Do(Operation::List { prefix: key(""), after: Some(key("b")) }),
            Request::Do(Operation::Write(write)),
            Request::Do(Operation::Write(delete)),
            Request::Do(Operation::Lease { ttl_ms: 5 }),
            Request::Do(Operation::KeepAlive),
            Request::Do(Operation::EndLease),
            Request::Watch { prefix: key("a/"), after: 8 },
        ]
    }

    fn answers() -> Vec<Answer> {
        let change = |value| Change { key: key("a"), revision: 4, value };
        let changes = vec![change(None), change(Value::new(vec![9]))];
        let records = vec![record(), record()];
        vec![
            Answer::Ended(Outcome::Found(record())),
            Answer::Ended(Outcome::Absent { revision: 5 }),
            Answer::Ended(Outcome::Listed { records, revision: 6, has_more: true }),
            Answer::Ended(Outcome::Done { revision: 7 }),
            Answer::Ended(Outcome::Conflict { found: Some(record()) }),
            Answer::Ended(Outcome::Conflict { found: None }),
            Answer::Ended(Outcome::Unguarded),
            Answer::Ended(Outcome::NotDone(Why::NoLease)),
            Answer::Ended(Outcome::Unknown(Why::Refused("so".to_owned()))),
            Answer::Watched(Watched::Changes { changes, upto: 8 }),
            Answer::Watched(Watched::Broken),
        ]
    }

    #[test]
    fn what_is_written_is_read_back_and_no_part_of_it_is_anything() {
        for request in requests() {
            let bytes = request.encode();
            for length in 0..bytes.len() {
                assert_eq!(Request::decode(&bytes[..length]), None, "{request:?}");
            }
            assert_eq!(Request::decode(&[&bytes[..], &[0]].concat()), None);
            assert_eq!(Request::decode(&bytes), Some(request));
        }
        for answer in answers() {
            let bytes = answer.encode();
            for length in 0..bytes.len() {
                assert_eq!(Answer::decode(&bytes[..length]), None, "{answer:?}");
            }
            assert_eq!(Answer::decode(&bytes), Some(answer));
        }
    }

    #[test]
    fn foreign_bytes_are_none_and_cost_nothing() {
        let many = Put::default().byte(8).number(u64::MAX).0;
        assert_eq!(Answer::decode(&many), None);
        for byte in 7..=255 {
            assert_eq!(Request::decode(&[byte]), None);
        }
        let upper = Put::default().byte(0).long(b"UPPER").0;
        assert_eq!(Request::decode(&upper), None);
    }
}
