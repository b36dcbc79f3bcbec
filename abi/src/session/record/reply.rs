//! The bytes of a reply.

use super::table::ReplyKind;
use super::*;

impl Reply {
    /// The record's bytes, answering the request numbered `sequence`.
    pub fn encode(&self, sequence: u32) -> [u8; REPLY_BYTES] {
        let mut bytes = [0; REPLY_BYTES];
        let mut w = Writer::new(&mut bytes);
        let code = if let Self::Refused { code, .. } = self { *code } else { Code::Ok };
        header(&mut w, self.number(), sequence, code);
        match self {
            Self::Welcome { session, boot } => {
                w.u32(session.index).u32(session.generation).u64(*boot);
            }
            Self::Listening { port, address } => {
                w.u32(port.index).u32(port.generation);
                address.encode(&mut w);
            }
            Self::Channels { port, entries, more } => {
                let kept = entries.len().min(FDS_PER_REPLY_MAX);
                w.u32(port.index).u32(port.generation).u32(kept as u32).u32(u32::from(*more));
                entries[..kept].iter().for_each(|entry| entry.encode(&mut w));
            }
            Self::Text { bytes } => {
                w.u64(*bytes);
            }
            Self::Refused { limit, bound, .. } => {
                w.u64(*limit);
                bound.encode(&mut w);
            }
            Self::Own(own) => {
                w.put(&own.body);
            }
            Self::Done => {}
            Self::Published { region, generation } => {
                w.u32(region.index).u32(region.generation).u64(*generation);
            }
            Self::Region { region, consumer, generation } => {
                w.u32(region.index).u32(region.generation);
                w.u32(consumer.index).u32(consumer.generation).u64(*generation);
            }
            Self::Consumers { region, entries, more } => {
                region::encode_changes(&mut w, *region, entries, *more);
            }
            Self::Leased { lease, bytes } => {
                w.u32(lease.index).u32(lease.generation).u64(*bytes);
            }
            Self::NotLeased { reason } => {
                w.u32(u32::from(*reason as u8));
            }
            Self::Delegated { depth, objects, lends, shows_only } => {
                w.u32(*depth).u32(*objects);
                w.u32(u32::from(*lends)).u32(u32::from(*shows_only));
            }
        }
        bytes
    }

    /// The reply and the sequence number it answers, from foreign bytes.
    pub fn decode(bytes: &[u8]) -> Result<(Self, u32), WireError> {
        check_length(bytes, REPLY_BYTES)?;
        let mut r = Reader::new(bytes);
        let (number, sequence, code) = check_header(&mut r)?;
        if let Some(own) = OwnReply::decode(number, &mut r) {
            return Ok((Self::Own(Box::new(own)), sequence));
        }
        let kind = ReplyKind::from_number(number).ok_or(WireError::Kind { found: number })?;
        let reply = match kind {
            ReplyKind::Welcome => Self::Welcome {
                session: ObjectId::decode_listed(&mut r, "session index", SESSIONS_MAX)?,
                boot: r.u64(),
            },
            ReplyKind::Listening => Self::Listening {
                port: ObjectId::decode_listed(&mut r, "port index", PORTS_MAX)?,
                address: NetAddress::decode(&mut r)?,
            },
            ReplyKind::Channels => take_channels(&mut r)?,
            ReplyKind::Text => Self::Text { bytes: r.u64() },
            ReplyKind::Done => Self::Done,
            ReplyKind::Refused => Self::Refused {
                code: Code::from_number(code)
                    .ok_or(WireError::Field { name: "code", found: u64::from(code) })?,
                limit: r.u64(),
                bound: Bound::decode(&mut r),
            },
            ReplyKind::Published => Self::Published {
                region: ObjectId::decode_listed(&mut r, "region index", REGIONS_MAX)?,
                generation: r.u64(),
            },
            ReplyKind::Region => Self::Region {
                region: ObjectId::decode_listed(&mut r, "region index", REGIONS_MAX)?,
                consumer: ObjectId::decode_listed(&mut r, "consumer index", ATTACHMENTS_MAX)?,
                generation: r.u64(),
            },
            ReplyKind::Consumers => {
                let (region, entries, more) = region::decode_changes(&mut r)?;
                Self::Consumers { region, entries, more }
            }
            ReplyKind::Leased => Self::Leased {
                lease: ObjectId::decode_listed(&mut r, "lease index", LEASES_MAX)?,
                bytes: r.u64(),
            },
            ReplyKind::NotLeased => Self::NotLeased { reason: take_unmapped(&mut r)? },
            ReplyKind::Delegated => take_delegated(&mut r)?,
        };
        Ok((reply, sequence))
    }
}
