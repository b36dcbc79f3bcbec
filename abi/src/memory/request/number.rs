//! The numbers of requests of the memory service, each given once.

use super::FIRST;

/// Of Allocate.
pub const ALLOCATE: u16 = FIRST;
/// Of Map.
pub const MAP: u16 = FIRST + 1;
/// Of Locate.
pub const LOCATE: u16 = FIRST + 2;
/// Of Arena.
pub const ARENA: u16 = FIRST + 3;
/// Of RegionPage.
pub const REGION_PAGE: u16 = FIRST + 4;
/// Of Unmap.
pub const UNMAP: u16 = FIRST + 5;
/// Of Free.
pub const FREE: u16 = FIRST + 6;
/// Of Grow.
pub const GROW: u16 = FIRST + 7;
/// Of Name.
pub const NAME: u16 = FIRST + 8;
/// Of Appoint.
pub const APPOINT: u16 = FIRST + 9;
/// Of Lasting.
pub const LASTING: u16 = FIRST + 10;
/// Of List.
pub const LIST: u16 = FIRST + 11;
/// Of Move.
pub const MOVE: u16 = FIRST + 12;
/// Of Session.
pub const SESSION: u16 = FIRST + 13;
/// Of AskMe.
pub const ASK_ME: u16 = FIRST + 14;
/// Of NextAsked.
pub const NEXT_ASKED: u16 = FIRST + 15;
/// Of Answer.
pub const ANSWER: u16 = FIRST + 16;
/// Of MapRegion.
pub const MAP_REGION: u16 = FIRST + 17;
/// Of On.
pub const ON: u16 = FIRST + 18;
/// Of Replicate.
pub const REPLICATE: u16 = FIRST + 30;
/// Of EndSession.
pub const END_SESSION: u16 = FIRST + 20;
/// Of Presence.
pub const PRESENCE: u16 = FIRST + 24;
/// Of MoveState.
pub const MOVE_STATE: u16 = FIRST + 25;
/// Of Class.
pub const CLASS: u16 = FIRST + 40;
/// Of Stage.
pub const STAGE: u16 = FIRST + 26;
/// Of Adopt.
pub const ADOPT: u16 = FIRST + 27;
