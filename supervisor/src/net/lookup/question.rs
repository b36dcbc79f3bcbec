//! Messages of the domain name system: a question checked once, asked and answered anew.
//!
//! What is passed on is not what the program wrote: only the name, the type and the number. So
//! nothing but a granted name travels.

use std::net::IpAddr;

use simple_dns::rdata::{RData, OPT};
use simple_dns::{
    Name, Packet, PacketFlag, Question as Asked, CLASS, OPCODE, QCLASS, QTYPE, RCODE,
};

/// Longest message of a program: with one question and options.
pub const QUESTION_BYTES_MAX: usize = 1232;

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
        let is_internet = asked.qclass == QCLASS::CLASS(CLASS::IN);
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
    fn a_refusal_answers_the_question_and_has_no_address() {
        let question = Question::read(&bytes(&[b"a"], 1)).unwrap();
        let refusal = question.refusal().unwrap();
        assert_eq!(Packet::parse(&refusal).unwrap().rcode(), RCODE::Refused);
        assert_eq!(question.addresses(&refusal), Some(Vec::new()));
        let other = Question::read(&bytes(&[b"b"], 1)).unwrap();
        assert_eq!(other.addresses(&refusal), None);
    }
}
