//! `/rpc`: functions that programs serve, each as a text of who may call it and who serves.

use heliostat_abi::rpc::name::THIS_NODE;
use heliostat_stub_rpc::{ListedFunction, Rpc};

use crate::listed::Lister;
use crate::renewed::Renewed;
use crate::text::{lines, text};
use crate::{Found, NameFault};

#[derive(Default)]
pub(crate) struct FunctionNames(Renewed<Rpc>);

impl Lister for FunctionNames {
    type Thing = ListedFunction;

    fn ask(
        &self,
        user: u32,
        beginning: &str,
    ) -> Result<Vec<((u32, String), ListedFunction)>, NameFault> {
        let rpc = self.0.current(Rpc::open)?;
        let functions = rpc.on(THIS_NODE).list_of(user, beginning)?;
        let named = |it: ListedFunction| ((it.user, it.name.as_str().to_owned()), it);
        Ok(functions.into_iter().map(named).collect())
    }

    fn found(&self, _: u32, function: &ListedFunction) -> Result<Found, NameFault> {
        let open_to = if function.others { "others" } else { "its user" };
        let fields = [
            ("uid", function.user.to_string()),
            ("servers", function.servers.to_string()),
            ("callers", function.callers.to_string()),
            ("request_bytes", function.request_bytes.to_string()),
            ("reply_bytes", function.reply_bytes.to_string()),
            ("open_to", open_to.to_owned()),
            ("age_s", function.age_s.to_string()),
        ];
        Ok(text(Some(function.user), lines(&fields)))
    }
}
