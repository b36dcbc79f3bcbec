//! `heliostat rpc`: the functions that programs serve, from the command line.
//!
//! Everything is asked as any program does it, through `heliostat-stub-rpc`.

use std::fmt;
use std::process::ExitCode;

use heliostat_stub_rpc::{ListedFunction, Rpc, RpcError, OWN_USER};
use serde_json::{json, Value};

use crate::args::rpc::{RpcCommand, RpcListArguments};
use crate::client::{open_session, ClientError};
use crate::show::{print, ShowError};
use crate::table::{bytes, Table};

/// Why it was not done.
#[derive(Debug)]
enum RpcFault {
    /// There is no control plane, or none to be trusted.
    Client(ClientError),
    /// The control plane says no.
    Rpc(RpcError),
    /// It could not be shown.
    Show(ShowError),
}

impl fmt::Display for RpcFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::Rpc(error) => error.fmt(f),
            Self::Show(error) => error.fmt(f),
        }
    }
}

/// Does what the command line says.
pub fn run(command: &RpcCommand) -> ExitCode {
    let RpcCommand::List(arguments) = command;
    match list(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("heliostat: {error}");
            ExitCode::FAILURE
        }
    }
}

fn list(arguments: &RpcListArguments) -> Result<(), RpcFault> {
    open_session(&arguments.format.place).map_err(RpcFault::Client)?;
    let rpc = Rpc::open().map_err(RpcFault::Rpc)?;
    let owner = arguments.owner.unwrap_or(OWN_USER);
    let functions =
        rpc.on(arguments.node).list_of(owner, &arguments.beginning).map_err(RpcFault::Rpc)?;
    let text = if arguments.format.json {
        format!("{}\n", Value::Array(functions.iter().map(function_json).collect()))
    } else {
        table(&functions)
    };
    print(&text).map_err(RpcFault::Show)
}

fn function_json(function: &ListedFunction) -> Value {
    json!({
        "id": function.function.to_string(),
        "name": function.name.as_str(),
        "uid": function.user,
        "servers": function.servers,
        "callers": function.callers,
        "request_bytes": function.request_bytes,
        "reply_bytes": function.reply_bytes,
        "others": function.others,
        "age_s": function.age_s,
    })
}

fn table(functions: &[ListedFunction]) -> String {
    if functions.is_empty() {
        return "there is no function that you may see\n".to_owned();
    }
    let heads = ["name", "#uid", "#servers", "#callers", "#payload", "#reply", "open to", "#age"];
    let mut table = Table::new(&heads);
    for function in functions {
        table.row([
            function.name.as_str().to_owned(),
            function.user.to_string(),
            function.servers.to_string(),
            function.callers.to_string(),
            bytes(u64::from(function.request_bytes)),
            bytes(u64::from(function.reply_bytes)),
            if function.others { "others" } else { "its user" }.to_owned(),
            format!("{} s", function.age_s),
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use heliostat_abi::name::ObjectId;
    use heliostat_abi::rpc::FunctionName;

    use super::*;

    #[test]
    fn the_table_tells_who_serves_and_who_may_call() {
        let function = ObjectId { index: 7, generation: 2 };
        let name = FunctionName::parse("kv/get").unwrap();
        let (user, servers, callers, age_s) = (1000, 2, 3, 61);
        let (request_bytes, reply_bytes, others) = (4096, 1 << 20, true);
        let listed = ListedFunction {
            function,
            user,
            servers,
            callers,
            request_bytes,
            reply_bytes,
            age_s,
            others,
            name,
        };
        let wanted = "name     uid  servers  callers  payload    reply  open to   age\n\
             kv/get  1000        2        3  4.0 KiB  1.0 MiB  others   61 s\n";
        assert_eq!(table(&[listed]), wanted);
    }
}
