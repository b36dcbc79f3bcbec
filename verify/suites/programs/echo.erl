%% An echo server and its client by Erlang's gen_tcp: `erl ... -run echo server PORT`, `... client PORT`.
-module(echo).
-export([server/1, client/1]).

server([Word]) ->
    {ok, Listener} = gen_tcp:listen(list_to_integer(Word),
        [binary, {ip, {127, 0, 0, 1}}, {active, false}, {reuseaddr, true}, {backlog, 64}]),
    accept(Listener).

accept(Listener) ->
    {ok, Socket} = gen_tcp:accept(Listener),
    Pid = spawn(fun() -> receive go -> echo(Socket) end end),
    ok = gen_tcp:controlling_process(Socket, Pid),
    Pid ! go,
    accept(Listener).

echo(Socket) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, Bytes} -> ok = gen_tcp:send(Socket, Bytes), echo(Socket);
        {error, closed} -> gen_tcp:close(Socket)
    end.

client([Word]) ->
    Port = list_to_integer(Word),
    Held = connect(Port),
    ok = gen_tcp:send(Held, <<"held">>),
    {ok, <<"held">>} = gen_tcp:recv(Held, 4, 30000),
    Marks = os:getenv("MARKS"),
    ok = file:write_file(filename:join(Marks, "connected"), <<>>),
    await(filename:join(Marks, "looked")),
    Self = self(),
    [spawn_link(fun() -> Self ! {Number, converse(Port, Number)} end) || Number <- lists:seq(1, 40)],
    io:format("~p~n", [[receive {Number, Answer} -> Answer end || Number <- lists:seq(1, 40)]]),
    halt(0).

await(File) ->
    case filelib:is_file(File) of
        true -> ok;
        false -> timer:sleep(10), await(File)
    end.

%% Small messages in turn, then a large one that is sent while its answer is read.
converse(Port, Number) ->
    Socket = connect(Port),
    InTurn = [begin ok = gen_tcp:send(Socket, <<I:32>>), {ok, <<I:32>>} = gen_tcp:recv(Socket, 4, 30000) end
              || I <- lists:seq(1, 50)],
    Large = binary:copy(<<Number>>, Number * 20011),
    spawn_link(fun() -> ok = gen_tcp:send(Socket, Large) end),
    {ok, Answer} = gen_tcp:recv(Socket, byte_size(Large), 30000),
    ok = gen_tcp:close(Socket),
    {length(InTurn), Answer =:= Large}.

connect(Port) ->
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}, {nodelay, true}], 30000),
    Socket.
