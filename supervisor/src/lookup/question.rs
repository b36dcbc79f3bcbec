//! Messages of the domain name system: a question checked once, asked and answered anew.
//!
//! What is passed on is not what the program wrote: a number of the supervisor's own, the name in
//! small letters, the type, and the supervisor's own size of answers. So nothing but a granted name
//! and a known type travels; the answer gets the program's number and letters again.

use std::net::IpAddr;

use simple_dns::rdata::{RData, OPT};
use simple_dns::{
    Name, Packet, PacketFlag, Question as Asked, CLASS, OPCODE, QCLASS, QTYPE, RCODE, TYPE,
};

/// Longest message of a program: with one question and options.
pub const QUESTION_BYTES_MAX: usize = 1232;

/// Bytes that an answer to the supervisor may have: what every path carries in one piece.
const ANSWER_BYTES: u16 = 1232;
/// An answer to who has not said how long it may be (RFC 1035, section 4.2.1).
const PLAIN_ANSWER_BYTES: u16 = 512;
/// Where the question begins.
const NAME_AT: usize = 12;
/// Type and class behind its name.
const KIND_BYTES: usize = 4;
/// In the third byte of a message: it was cut.
const CUT: u8 = 2;

/// One question for one name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    /// The name, dots between its parts and none after the last.
    pub name: String,
    id: u16,
    kind: QTYPE,
    /// Bytes that an answer in a datagram may have, if the program said so.
    answer_bytes: Option<u16>,
}

impl Question {
    /// Reads foreign bytes; nothing for anything else than one question of the Internet's class.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > QUESTION_BYTES_MAX {
            return None;
        }
        let packet = Packet::parse(bytes).ok()?;
        let is_question = !packet.has_flags(PacketFlag::RESPONSE)
            && packet.opcode() == OPCODE::StandardQuery
            && packet.answers.is_empty();
        let [asked] = packet.questions.as_slice() else { return None };
        let is_internet = asked.qclass == QCLASS::CLASS(CLASS::IN)
            && !matches!(asked.qtype, QTYPE::TYPE(TYPE::Unknown(_)));
        // A dot inside a part would make another name of it, and so would what is no text.
        let is_part = |label: &[u8]| label.is_ascii() && !label.contains(&b'.');
        let is_name = asked.qname.as_bytes().all(is_part);
        (is_question && is_internet && is_name).then(|| Self {
            name: asked.qname.to_string(),
            id: packet.id(),
            kind: asked.qtype,
            answer_bytes: packet.opt().map(|options| options.udp_packet_size),
        })
    }

    /// The question that is asked instead.
    pub fn own(&self, id: u16) -> Self {
        Self {
            name: self.name.to_ascii_lowercase(),
            id,
            kind: self.kind,
            answer_bytes: self.answer_bytes.map(|_| ANSWER_BYTES),
        }
    }

    /// The question that goes from the program's own socket, to which the answer comes: its number
    /// stays.
    pub fn unconnected(&self) -> Self {
        self.own(self.id)
    }

    /// The answer to the question that was asked instead, as one to this: with this one's number,
    /// and its name in the letters that the program used.
    pub fn adopt(&self, mut answer: Vec<u8>) -> Option<Vec<u8>> {
        let mut at = NAME_AT;
        for label in self.name.split('.').filter(|label| !label.is_empty()) {
            let length = usize::from(*answer.get(at)?);
            let place = answer.get_mut(at + 1..at + 1 + length)?;
            if !place.eq_ignore_ascii_case(label.as_bytes()) {
                return None;
            }
            place.copy_from_slice(label.as_bytes());
            at += 1 + length;
        }
        answer.get_mut(..2)?.copy_from_slice(&self.id.to_be_bytes());
        Some(answer)
    }

    /// What of an answer goes into a datagram for the program: all of it, or the question and that it
    /// was cut.
    pub fn cut<'a>(&self, answer: &'a [u8]) -> std::borrow::Cow<'a, [u8]> {
        let most = self.answer_bytes.unwrap_or(0).max(PLAIN_ANSWER_BYTES);
        let name = if self.name.is_empty() { 1 } else { self.name.len() + 2 };
        let question = NAME_AT + name + KIND_BYTES;
        if answer.len() <= usize::from(most) || answer.len() < question {
            return answer.into();
        }
        let mut kept = answer[..question].to_vec();
        kept[2] |= CUT;
        // No records follow.
        kept[6..NAME_AT].fill(0);
        kept.into()
    }

    /// The question as it is passed on.
    pub fn message(&self) -> Option<Vec<u8>> {
        let mut packet = Packet::new_query(self.id);
        packet.set_flags(PacketFlag::RECURSION_DESIRED);
        packet.questions.push(self.asked()?);
        *packet.opt_mut() = self.answer_bytes.map(|bytes| OPT {
            opt_codes: Vec::new(),
            udp_packet_size: bytes,
            version: 0,
        });
        packet.build_bytes_vec().ok()
    }

    /// The answer that it is refused.
    pub fn refusal(&self) -> Option<Vec<u8>> {
        let mut packet = Packet::new_reply(self.id);
        packet.set_flags(PacketFlag::RECURSION_DESIRED | PacketFlag::RECURSION_AVAILABLE);
        packet.questions.push(self.asked()?);
        *packet.rcode_mut() = RCODE::Refused;
        packet.build_bytes_vec().ok()
    }

    /// The addresses in an answer to this; nothing if it answers something else.
    pub fn addresses(&self, answer: &[u8]) -> Option<Vec<IpAddr>> {
        let packet = Packet::parse(answer).ok()?;
        let [asked] = packet.questions.as_slice() else { return None };
        let is_mine = packet.id() == self.id
            && packet.has_flags(PacketFlag::RESPONSE)
            && asked.qtype == self.kind
            && asked.qname.to_string().eq_ignore_ascii_case(&self.name);
        let addresses = packet.answers.iter().filter_map(|record| match &record.rdata {
            RData::A(v4) => Some(IpAddr::from(v4.address.to_be_bytes())),
            RData::AAAA(v6) => Some(IpAddr::from(v6.address.to_be_bytes())),
            _ => None,
        });
        is_mine.then(|| addresses.collect())
    }

    fn asked(&self) -> Option<Asked<'_>> {
        let name = Name::new(&self.name).ok()?;
        Some(Asked::new(name, self.kind, QCLASS::CLASS(CLASS::IN), false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A question for `name`, as a resolver writes it.
    fn bytes(labels: &[&[u8]], class: u16) -> Vec<u8> {
        let mut bytes = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in labels {
            bytes.push(label.len() as u8);
            bytes.extend(*label);
        }
        bytes.extend([0, 0, 1]);
        bytes.extend(class.to_be_bytes());
        bytes
    }

    #[test]
    fn a_question_is_read_and_passed_on_with_nothing_beside_it() {
        let mut written = bytes(&[b"a", b"example", b"org"], 1);
        let question = Question::read(&written).unwrap();
        assert_eq!(question.name, "a.example.org");
        assert_eq!(question.message().unwrap(), written);
        // Options of the program's own stay behind.
        written[11] = 1;
        written.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 8, 0xfd, 0xe9, 0, 4, 1, 2, 3, 4]);
        let question = Question::read(&written).unwrap();
        let passed_on = question.message().unwrap();
        assert!(!passed_on.windows(4).any(|four| four == [1, 2, 3, 4]));
        assert_eq!(question.answer_bytes, Some(1232));
    }

    #[test]
    fn what_is_no_single_question_of_the_internet_is_nothing() {
        assert_eq!(Question::read(&bytes(&[b"a"], 3)), None);
        assert_eq!(Question::read(&bytes(&[b"a.b"], 1)), None);
        assert_eq!(Question::read(&bytes(&[b"a\xe2"], 1)), None);
        assert_eq!(Question::read(&[0; 11]), None);
        let mut two = bytes(&[b"a"], 1);
        two[5] = 2;
        assert_eq!(Question::read(&two), None);
        let mut response = bytes(&[b"a"], 1);
        response[2] |= 0x80;
        assert_eq!(Question::read(&response), None);
        for length in 0..bytes(&[b"a"], 1).len() {
            assert_eq!(Question::read(&bytes(&[b"a"], 1)[..length]), None, "{length}");
        }
    }

    #[test]
    fn the_own_question_has_nothing_of_the_programs_but_name_and_type() {
        let mut written = bytes(&[b"sEcReT", b"example", b"ORG"], 1);
        written[11] = 1;
        written.extend([0, 0, 41, 0x07, 0xd5, 0, 0, 0, 0, 0, 0]);
        let question = Question::read(&written).unwrap();
        let own = question.own(0x9abc);
        let asked = own.message().unwrap();
        assert_eq!(asked[..2], [0x9a, 0xbc]);
        assert!(asked.windows(6).any(|six| six == b"secret"));
        assert!(!asked.windows(2).any(|two| two == [0x07, 0xd5] || two == [0x12, 0x34]));
        let unknown = [&written[..27], &[0xff, 0x10, 0, 1]].concat();
        assert_eq!(Question::read(&unknown), None);
    }

    #[test]
    fn an_answer_comes_back_with_the_programs_number_and_letters() {
        let question = Question::read(&bytes(&[b"sEcReT", b"org"], 1)).unwrap();
        let own = question.own(0x9abc);
        let mut answer = own.message().unwrap();
        answer[2] |= 0x80;
        assert_eq!(own.addresses(&answer), Some(Vec::new()));
        assert_eq!(question.addresses(&answer), None);
        let adopted = question.adopt(answer.clone()).unwrap();
        assert_eq!(question.addresses(&adopted), Some(Vec::new()));
        assert!(adopted.windows(6).any(|six| six == b"sEcReT"));
        let other = Question::read(&bytes(&[b"others", b"org"], 1)).unwrap();
        assert_eq!(other.adopt(answer.clone()), None);
        assert_eq!(question.cut(&adopted), &adopted[..]);
        answer.resize(600, 0);
        let cut = question.cut(&answer).into_owned();
        assert!(cut[2] & CUT != 0 && Packet::parse(&cut).unwrap().answers.is_empty());
    }

    #[test]
    fn a_refusal_answers_the_question_and_has_no_address() {
        let question = Question::read(&bytes(&[b"a"], 1)).unwrap();
        let refusal = question.refusal().unwrap();
        assert_eq!(Packet::parse(&refusal).unwrap().rcode(), RCODE::Refused);
        assert_eq!(question.addresses(&refusal), Some(Vec::new()));
        let other = Question::read(&bytes(&[b"b"], 1)).unwrap();
        assert_eq!(other.addresses(&refusal), None);
    }
}
