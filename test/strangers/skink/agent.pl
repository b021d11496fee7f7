#!/usr/bin/perl
# Skink: an ACP agent in plain Perl. One process, one select loop; a turn is a queue of small steps.
use strict; use warnings; use utf8;
use JSON::PP (); use Encode qw(encode_utf8 decode_utf8); use IO::Select; use IO::Handle;
use POSIX qw(setsid WNOHANG); use Time::HiRes qw(time); use File::Spec; use File::Path qw(make_path);
use File::Basename qw(basename dirname); use MIME::Base64 qw(encode_base64url decode_base64url); use Digest::MD5 qw(md5_hex);

$SIG{PIPE} = 'IGNORE';
binmode STDIN; binmode STDOUT; STDOUT->autoflush(1); binmode STDERR, ':utf8';
my $FAULT = $ENV{FAULT} // '';
my $J = JSON::PP->new->utf8->canonical->allow_nonref->allow_blessed;
my $PLAIN = JSON::PP->new->canonical->allow_nonref;          # characters out, no encoding step
my ($T, $F) = (JSON::PP::true, JSON::PP::false);
my $BADGE = 'skink-badge';
my $STARTED = time;
my (%live, %watch, %asked, @timers);                          # sessions, file handles, own requests, delayed work
my ($ready, $badge, $caps, $counter, $eof) = (0, 0, {}, 0, 0);
my $STORE = File::Spec->catdir($ENV{HOME} && -w $ENV{HOME} ? $ENV{HOME} : File::Spec->tmpdir, '.skink');
make_path($STORE) unless -d $STORE;
my $select = IO::Select->new(\*STDIN);

# ---------------------------------------------------------------- wire
sub put { my $b = shift; my $o = 0; while ($o < length $b) { my $n = syswrite(STDOUT, $b, length($b) - $o, $o); exit 0 unless defined $n; $o += $n } }
sub send_msg { put($J->encode({ jsonrpc => '2.0', %{ $_[0] } }) . "\n") }
sub result { my ($id, $r) = @_; send_msg({ id => $id, result => $r }) }
sub fail { my ($id, $code, $msg, %data) = @_;
    $id = "$id" if $FAULT eq 'skink-error-id' && defined $id;
    send_msg({ id => $id, error => { code => $code, message => $msg, data => { hint => 'see the skink manual', %data } } }) }
sub update { my ($s, $u) = @_; send_msg({ method => 'session/update', params => { sessionId => $s->{id}, update => $u } }) }
sub ask { my ($method, $params, $then) = @_; my $id = 'skink-' . ++$counter; $asked{$id} = $then; send_msg({ id => $id, method => $method, params => $params }) }
sub text_of { return { type => 'content', content => { type => 'text', text => shift } } }
sub is_str { my $v = shift; return defined $v && !ref $v && $J->encode($v) =~ /^"/ }
sub is_int { my $v = shift; return defined $v && !ref $v && $J->encode($v) =~ /^-?\d+$/ }
sub now_iso { my @t = gmtime; return sprintf '%04d-%02d-%02dT%02d:%02d:%02dZ', $t[5] + 1900, $t[4] + 1, @t[3, 2, 1, 0] }
sub later { my ($s, $f) = @_; push @timers, [time + $s, $f] }

# ---------------------------------------------------------------- sessions on disk
sub path_of { File::Spec->catfile($STORE, "$_[0].json") }
sub save { my $s = shift; my %keep = map { $_ => $s->{$_} } qw(id cwd born updatedAt title log);
    if (open my $h, '>:raw', path_of($s->{id}) . '.new') { print $h $J->encode(\%keep); close $h; rename path_of($s->{id}) . '.new', path_of($s->{id}) } }
sub recall { my $id = shift; return unless $id =~ /^sk_[0-9a-f]{16}$/; open my $h, '<:raw', path_of($id) or return; local $/; my $d = eval { $J->decode(<$h>) }; return $d }
sub everything { opendir my $d, $STORE or return (); my @l = grep { defined } map { /^(sk_[0-9a-f]{16})\.json$/ ? recall($1) : () } readdir $d; return sort { $b->{born} cmp $a->{born} || $a->{id} cmp $b->{id} } @l }
sub check_setup { my ($id, $p) = @_;
    return fail($id, -32602, 'cwd must be an absolute path', field => 'cwd') && 0 unless is_str($p->{cwd}) && $p->{cwd} =~ m{^/};
    return fail($id, -32602, 'mcpServers must be a list', field => 'mcpServers') && 0 unless ref $p->{mcpServers} eq 'ARRAY';
    for my $m (@{ $p->{mcpServers} }) {
        my $ok = ref $m eq 'HASH' && is_str($m->{name}) && !(defined $m->{type} && $m->{type} =~ /^(http|sse)$/) && is_str($m->{command}) && ref $m->{args} eq 'ARRAY' && ref $m->{env} eq 'ARRAY';
        return fail($id, -32602, 'only stdio MCP servers with name, command, args and env are understood', field => 'mcpServers') && 0 unless $ok;
    }
    return 1 }
sub end_servers { my $s = shift; for my $m (@{ $s->{mcp} || [] }) { unwatch($m->{out}); close $m->{in}; kill('TERM', -$m->{pid}) || kill 'TERM', $m->{pid}; $m->{dead} = 1 } $s->{mcp} = [] }

# ---------------------------------------------------------------- child processes in the loop
sub watch { my ($h, $f) = @_; $watch{ fileno $h } = [$h, $f]; $select->add($h) }
sub unwatch { my $h = shift; return unless $h && defined fileno $h; delete $watch{ fileno $h }; $select->remove($h); close $h }
sub start { my ($cwd, $env, $merge, @cmd) = @_;
    pipe(my $cin, my $in) or die; pipe(my $out, my $cout) or die;
    my $pid = fork // die;
    if (!$pid) { setsid(); chdir encode_utf8($cwd) or POSIX::_exit(126); delete $ENV{FAULT}; @ENV{ keys %$env } = values %$env;
        open STDIN, '<&', $cin; open STDOUT, '>&', $cout; if ($merge) { open STDERR, '>&', $cout } else { open STDERR, '>', '/dev/null' }
        close $_ for $in, $out; { no warnings; exec { $cmd[0] } @cmd } POSIX::_exit(127) }
    close $cin; close $cout; $in->autoflush(1); binmode $_ for $in, $out;
    return ($pid, $in, $out) }

# ---------------------------------------------------------------- MCP (stdio)
sub connect_mcp { my ($s, $spec) = @_;
    my %env = map { encode_utf8($_->{name}) => encode_utf8($_->{value}) } @{ $spec->{env} };
    my ($pid, $in, $out) = start($s->{cwd}, \%env, 0, map { encode_utf8($_) } $spec->{command}, @{ $spec->{args} });
    my $m = { name => $spec->{name}, pid => $pid, in => $in, out => $out, n => 0, wait => {}, tools => [], ready => 0, buf => '' };
    push @{ $s->{mcp} }, $m;
    watch($out, sub { my $n = sysread $out, $m->{buf}, 65536, length $m->{buf};
        if (!$n) { unwatch($out); $m->{dead} = $m->{ready} = 1; waitpid $pid, WNOHANG; $_->(undef) for values %{ $m->{wait} }; $m->{wait} = {}; return }
        while ($m->{buf} =~ s/^(.*?)\n//) { my $r = eval { $J->decode($1) } or next; next unless ref $r eq 'HASH' && defined $r->{id};
            if ($r->{method}) { mcp_send($m, { id => $r->{id}, $r->{method} eq 'ping' ? (result => {}) : (error => { code => -32601, message => 'no' }) }) }
            elsif (my $w = delete $m->{wait}{ $r->{id} }) { $w->($r) } } });
    mcp_call($m, 'initialize', { protocolVersion => '2024-11-05', capabilities => {}, clientInfo => { name => 'skink', version => '0.0.7' } }, sub {
        mcp_send($m, { method => 'notifications/initialized' });
        mcp_call($m, 'tools/list', {}, sub { my $r = shift; $m->{tools} = $r->{result}{tools} || [] if $r; $m->{ready} = 1 }) }) }
sub mcp_send { my ($m, $x) = @_; print { $m->{in} } $J->encode({ jsonrpc => '2.0', %$x }) . "\n" unless $m->{dead} }
sub mcp_call { my ($m, $method, $p, $f) = @_; my $id = ++$m->{n}; $m->{wait}{$id} = $f; mcp_send($m, { id => $id, method => $method, params => $p }) }

# ---------------------------------------------------------------- turns
# A turn runs $t->{steps} one by one; `wake` delays the next step, `hold` stops until a callback lets go.
sub step { my ($t, @f) = @_; push @{ $t->{steps} }, @f }
sub next_up { my ($t, @f) = @_; unshift @{ $t->{steps} }, @f }
sub say_it { my ($t, $text) = @_;
    $t->{said} .= $text;
    if ($FAULT eq 'skink-byte-chunks') {
        for my $piece (unpack '(a16)*', encode_utf8($text)) {
            put($PLAIN->encode({ jsonrpc => '2.0', method => 'session/update', params => { sessionId => $t->{s}{id}, update => { sessionUpdate => 'agent_message_chunk', content => { type => 'text', text => $piece } } } }) . "\n") }
        return }
    update($t->{s}, { sessionUpdate => 'agent_message_chunk', content => { type => 'text', text => $_ } }) for $text =~ /(.{1,16})/gs }
sub tool { my ($t, $title, $kind, %more) = @_;
    my $id = 'call_' . substr(md5_hex(rand() . time . encode_utf8($title)), 0, 12);
    $t->{open}{$id} = { toolCallId => $id, title => $title, kind => $kind, %more };
    update($t->{s}, { sessionUpdate => 'tool_call', status => 'in_progress', %{ $t->{open}{$id} } });
    return $id }
sub tool_end { my ($t, $id, $ok, $content) = @_;
    my $c = delete $t->{open}{$id} or return;
    my $status = $ok ? 'completed' : 'failed';
    update($t->{s}, { sessionUpdate => 'tool_call_update', toolCallId => $id, status => $status, content => $content });
    push @{ $t->{log} }, { tool => { %$c, status => $status, content => $content } } }
sub finish { my ($t, $reason) = @_; my $s = $t->{s};
    if ($t->{pid}) { kill 'KILL', -$t->{pid}; unwatch($t->{out}); waitpid $t->{pid}, 0 }
    tool_end($t, $_, 0, [text_of('stopped')]) for keys %{ $t->{open} };
    push @{ $s->{log} }, { user => $t->{words} }, @{ $t->{log} || [] }, length $t->{said} ? { agent => $t->{said} } : ();
    $s->{updatedAt} = now_iso(); $s->{turn} = undef; $t->{over} = 1;
    if (!defined $s->{title} && $t->{words} =~ /\S/) { ($s->{title}) = $t->{words} =~ /^\s*(.{1,40})/;
        update($s, { sessionUpdate => 'session_info_update', title => $s->{title}, updatedAt => $s->{updatedAt} }) }
    save($s) unless $s->{deleted};
    $t->{broken} ? fail($t->{rpc}, -32603, 'skink slipped') : result($t->{rpc}, { stopReason => $reason }) }
sub run_turns { my $soon = 5;
    for my $s (values %live) { my $t = $s->{turn} or next;
        while (!$t->{over} && !$t->{hold}) {
            if ($t->{wake} > time) { my $d = $t->{wake} - time; $soon = $d if $d < $soon; last }
            my $f = shift @{ $t->{steps} };
            if (!$f) { finish($t, 'end_turn') }
            elsif (!eval { $f->(); 1 }) { print STDERR "skink: $@"; $t->{broken} = 1; finish($t, 'end_turn') } } }
    my @due = grep { $_->[0] <= time } @timers; @timers = grep { $_->[0] > time } @timers; $_->[1]->() for @due;
    for (@timers) { my $d = $_->[0] - time; $soon = $d if $d < $soon }
    return $soon < 0 ? 0 : $soon }
sub slowly { my ($t, $gap, @pieces) = @_; step($t, map { my $p = $_; sub { say_it($t, $p); $t->{wake} = time + $gap } } @pieces) }

# ---------------------------------------------------------------- tools of the trade
sub place { my ($t, $name) = @_; my $p = File::Spec->rel2abs($name, $t->{s}{cwd}); my @o; for (split m{/+}, $p) { next if $_ eq '' || $_ eq '.'; if ($_ eq '..') { pop @o } else { push @o, $_ } }
    $p = '/' . join '/', @o; my $root = $t->{s}{cwd} =~ s{/+$}{}r; return ($p, $p eq $root || index($p, "$root/") == 0) }
sub slurp { open my $h, '<:raw', encode_utf8(shift) or return; local $/; my $b = <$h>; return Encode::decode('UTF-8', $b // '') }
sub read_it { my ($t, $name) = @_; my ($p, $in) = place($t, $name);
    my $id = tool($t, 'read ' . basename($p), 'read', rawInput => { path => $p }, locations => [{ path => $p, line => 1 }]);
    my $done = sub { my ($body, $why) = @_;
        if (!defined $body) { tool_end($t, $id, 0, [text_of($why)]); return say_it($t, "I could not read $name — $why.") }
        tool_end($t, $id, 1, [text_of($body)]); say_it($t, "$name holds: " . substr($body, 0, 5000)) };
    return $done->(undef, 'it lies outside the workspace') unless $in;
    if (ref $caps->{fs} eq 'HASH' && $caps->{fs}{readTextFile}) { $t->{hold} = 1;
        ask('fs/read_text_file', { sessionId => $t->{s}{id}, path => $p, line => 1, limit => 2000 }, sub { my $r = shift; return if $t->{over}; $t->{hold} = 0;
            $r->{error} ? $done->(undef, 'the editor says: ' . ($r->{error}{message} // 'error')) : $done->($r->{result}{content}) }) }
    else { my $b = slurp($p); $done->($b, defined $b ? '' : lcfirst "$!") } }
sub write_it { my ($t, $name, $make) = @_; my ($p, $in) = place($t, $name); my $old = $in ? slurp($p) : undef; my $new = $make->($old);
    return say_it($t, "There is nothing to change in $name.") unless defined $new;
    my $id = tool($t, 'write ' . basename($p), 'edit', rawInput => { path => $p }, locations => [{ path => $p }]);
    my $done = sub { my $why = shift;
        if (defined $why) { tool_end($t, $id, 0, [text_of($why)]); return say_it($t, "I could not write $name — $why.") }
        tool_end($t, $id, 1, [{ type => 'diff', path => $p, oldText => $old, newText => $new }]); say_it($t, "Written — $name is ready.") };
    return $done->('it lies outside the workspace') unless $in;
    if (ref $caps->{fs} eq 'HASH' && $caps->{fs}{writeTextFile}) { $t->{hold} = 1;
        ask('fs/write_text_file', { sessionId => $t->{s}{id}, path => $p, content => $new }, sub { my $r = shift; return if $t->{over}; $t->{hold} = 0; $done->($r->{error} ? $r->{error}{message} // 'error' : undef) }) }
    else { eval { make_path(dirname(encode_utf8($p))) }; if (open my $h, '>:raw', encode_utf8($p)) { print $h encode_utf8($new); close $h; $done->() } else { $done->(lcfirst "$!") } } }
sub delete_it { my ($t, $name) = @_; my ($p, $in) = place($t, $name); my $id = tool($t, 'delete ' . basename($p), 'delete', locations => [{ path => $p }]);
    my $ok = $in && unlink encode_utf8($p); tool_end($t, $id, $ok, [text_of($ok ? 'deleted' : 'not deleted')]); say_it($t, $ok ? "$name is gone." : "I could not delete $name.") }
sub run_it { my ($t, $cmd) = @_; my $s = $t->{s}; my $id = tool($t, $cmd, 'execute', rawInput => { command => $cmd, cwd => $s->{cwd} });
    my ($pid, $in, $out) = start($s->{cwd}, {}, 1, '/bin/sh', '-c', encode_utf8($cmd)); close $in;
    @$t{qw(pid out hold)} = ($pid, $out, 1); my $all = '';
    watch($out, sub { my $n = sysread $out, $all, 65536, length $all;
        if ($n) { update($s, { sessionUpdate => 'tool_call_update', toolCallId => $id, content => [text_of(Encode::decode('UTF-8', substr $all, -20000))] }); return }
        unwatch($out); waitpid $pid, 0; my $code = $? >> 8; $code = 128 + ($? & 127) if $? & 127; @$t{qw(pid hold)} = (undef, 0);
        my $text = Encode::decode('UTF-8', substr $all, -20000);
        tool_end($t, $id, $code == 0, [text_of($text)]); say_it($t, "“$cmd” finished with $code — $text") }) }
sub quoted { my @q; push @q, $1 // $2 // $3 // $4 while $_[0] =~ /`([^`]+)`|"([^"]+)"|“([^”]+)”|(?<!\w)'([^']+)'(?!\w)/g; return @q }
sub mcp_it { my ($t, $words, $tries) = @_; my @srv = @{ $t->{s}{mcp} || [] };
    if ((grep { !$_->{ready} } @srv) && $tries < 60) { next_up($t, sub { mcp_it($t, $words, $tries + 1) }); $t->{wake} = time + 0.1; return }
    my @all = map { my $m = $_; map { [$m, $_] } @{ $m->{tools} } } @srv;
    my @hit = sort { length $b->[1]{name} <=> length $a->[1]{name} } grep { $words =~ /(?<![\w-])\Q$_->[1]{name}\E(?![\w-])/ } @all;
    my @exact = grep { $words =~ /\Q$_->[0]{name}\E/i } @hit; @hit = @exact if @exact;
    if (!@hit) { my @of = grep { $words =~ /\Q$_->[0]{name}\E/i } @all; @hit = @of if @of == 1 }
    return say_it($t, 'Tools at hand: ' . (join(', ', map { "$_->[1]{name} ($_->[0]{name})" } @all) || 'none') . '.') unless @hit;
    my ($m, $tool) = @{ $hit[0] }; my $props = $tool->{inputSchema}{properties} || {}; my $args = {};
    if ($words =~ /(\{.*\})/s and my $a = eval { JSON::PP->new->decode($1) }) { $args = $a }
    else { my @q = grep { $_ ne $tool->{name} && $_ ne $m->{name} && !exists $props->{$_} } quoted($words); my @n = $words =~ /(?<![\w.])(-?\d+)(?![\w.])/g;
        my ($tail) = $words =~ /\b(?:with|saying|for|on)\s+(?:the\s+)?(?:text|message|argument|input|value|word)?s?\s*:?\s*(.+?)\.?$/is;
        for my $k (sort keys %$props) { my ($v) = grep { defined } $words =~ /\b\Q$k\E\b["'`]?\s*(?:=|:|is|of|set to)?\s*(?:"([^"]*)"|'([^']*)'|`([^`]*)`|(-?[\w.]+))/i; my $ty = $props->{$k}{type} // 'string';
            if ($ty =~ /^(number|integer)$/) { $args->{$k} = 0 + (defined $v && $v =~ /^-?\d+$/ ? $v : shift @n // 0) }
            elsif ($ty eq 'boolean') { $args->{$k} = ($v // '') =~ /^(true|yes|on)$/i ? $T : $F }
            elsif ($ty eq 'string') { $args->{$k} = @q ? shift @q : $v // $tail // $words } } }
    my $id = tool($t, "$m->{name} › $tool->{name}", 'fetch', rawInput => $args); $t->{hold} = 1;
    mcp_call($m, 'tools/call', { name => $tool->{name}, arguments => $args }, sub { my $r = shift; return if $t->{over}; $t->{hold} = 0;
        my $bad = !$r || $r->{error} || $r->{result}{isError}; my $text = !$r ? 'the server went away' : $r->{error} ? $r->{error}{message} : join "\n", map { $_->{text} // "[$_->{type}]" } @{ $r->{result}{content} || [] };
        tool_end($t, $id, !$bad, [text_of($text)]); say_it($t, ($bad ? 'It failed: ' : "$tool->{name} replied: ") . $text) }) }

# ---------------------------------------------------------------- understanding English
sub path_like { my $w = shift; return $w !~ /\s/ && ($w =~ m{^\.{0,2}/[^/]} || $w =~ m{^[\w@+./-]*[\w-]\.[A-Za-z][A-Za-z0-9]{0,7}$}) && $w !~ /^(e\.g|i\.e)$/i }
sub find_file { my $s = shift; for (quoted($s)) { return $_ if path_like($_) }
    return $1 =~ s/\.$//r if $s =~ /\bfile\s+(?:named|called|at)\s+[`"']?([^\s`"',;:]+)/i;
    for (split /[\s`"'“”(),;:]+/, $s) { my $w = s/[.?!]+$//r; return $w if length $w && path_like($w) }
    return $1 if $s =~ /\bfile\s+([A-Za-z][\w-]+)/ && $1 !~ /^(with|that|in|named|called|containing|and|to|for|please|using|system)$/i; return }
sub content { my ($s, $file) = @_; my $body = '';
    if ($s =~ /\b(?:with(?: exactly)?(?: the| this| a)?(?: following| single)?(?: text| contents?| line| body| words?)|containing(?: only| exactly| just)?(?: the)?(?: text| words?| line)?|(?:that|it) (?:says|contains|reads|should (?:say|contain))(?: exactly| only| just)?|whose contents? (?:is|are)|contents?(?: should be| is)?|saying)(?: of)?\s*:?\s*(.+)$/is) { $body = $1 }
    elsif ($s =~ /\b(?:write|put|save|store)\s+(?:the (?:text|words?|line|string)\s+)?(.+?)\s+(?:in|into|to)\s+/is) { $body = $1 }
    elsif ($s =~ /\bwith\s+(.+)$/is) { $body = $1 }
    my ($q) = grep { $_ ne $file } quoted($body); ($q) = grep { $_ ne $file } quoted($s) if !defined $q && $body !~ /\S/; return $q if defined $q;
    $body =~ s/^\s+|\s+$//g; $body =~ s/\s+(?:in it|inside)\.?$//; $body =~ s/(?<=\w)\.$//; return length $body && $body ne $file ? $body : "A skink wrote this.\n" }
sub command { my $s = shift; my ($q) = quoted($s); return $q if defined $q;
    return unless $s =~ /\b(?:run|execute)\b\s*(?:the\s+|this\s+)?(?:following\s+)?(?:shell\s+|terminal\s+|bash\s+)?(?:command)?\s*(?:in (?:the|a|your) (?:terminal|shell)\s*)?:?\s*(.+)$/is;
    my $c = $1; $c =~ s/\s+in (?:the|a|your) (?:terminal|shell)\b.*$//s; $c =~ s/[,.]?\s+(?:and|then)\s+(?:tell|show|give|report|let|wait)\b.*$//s; $c =~ s/(?:\s+(?:for me|please))?[.?!]?\s*$//; return $c }
sub think { my $t = shift; my $s = $t->{s}; local $_ = $t->{words} =~ s/^\s+|\s+$//gr; my $w = $_; my $file = find_file($w);
    my @names = map { map { $_->{name} } @{ $_->{tools} } } @{ $s->{mcp} || [] };
    my $named = grep { $w =~ /(?<![\w-])\Q$_\E(?![\w-])/ } @names;
    return mcp_it($t, $w, 0) if /\bmcp\b/i || ($named && (/\b(tool|server)\b/i || (/\b(use|call|invoke)\b/i && !/\b(run|execute|terminal|shell|command)\b/i)));
    if (/\bplan\b(?!\.\w)/i && !/\bfile\b/i) { my @p = ('Look for a warm stone', 'Sit on it', 'Catch the fly');
        for my $at (0 .. @p) { step($t, sub { update($s, { sessionUpdate => 'plan', entries => [map { { content => $p[$_], priority => 'medium', status => $_ < $at ? 'completed' : $_ == $at ? 'in_progress' : 'pending' } } 0 .. $#p] }); $t->{wake} = time + 0.1 }) }
        return step($t, sub { say_it($t, 'Three steps — stone, sit, fly. That is the plan.') }) }
    if (/\bcount\b.*?\b(?:to|until|till)\s+(\d+)/is || /\bcount\b\D*(\d+)/i) { my $n = $1 > 1000 ? 1000 : $1; return slowly($t, /slow|second|pause/i ? 0.3 : 0.08, map { "$_, " } 1 .. $n) }
    if (/\b(run|execute)\b/i and defined(my $c = command($w))) { return run_it($t, $c) }
    if ($file && /\b(?:replace|change)\s+(?:the (?:word|text)\s+)?(.+?)\s+(?:with|by|to|into)\s+(.+?)(?:\s+in\b|[.!]?\s*$)/is) { my ($a, $b) = map { s/^[`"'“]|[`"'”]$//gr } $1, $2; return write_it($t, $file, sub { my $o = shift; return unless defined $o && index($o, $a) >= 0; return $o =~ s/\Q$a\E/$b/gr }) }
    return delete_it($t, $file) if $file && /\b(delete|remove|erase)\b/i;
    if ($file && /\bappend\s+(.+?)\s+to\b/is) { my $x = $1; my ($q) = quoted($x); return write_it($t, $file, sub { ($_[0] // '') . ($q // $x) }) }
    return write_it($t, $file, sub { content($w, $file) }) if $file && /\b(create|write|make|save|put|generate|store|update|edit|modify|overwrite|set)\b/i;
    return read_it($t, $file) if $file && /\b(read|open|show|display|print|cat|look|see|contents?|summari[sz]e|what|tell|view|check|explain)\b/i;
    return run_it($t, 'ls -1') if /\b(list|show|which|what)\b.*\bfiles\b|^ls\b/is;
    return say_it($t, "I am working in $s->{cwd}") if /\b(working|current) (directory|folder)\b|\bpwd\b/i;
    return mcp_it($t, $w, 0) if /\b(use|call|invoke|try)\b.*\btool\b/is;
    if (/\b(?:wait|sleep|pause)\b\D*(\d+)\s*s/i) { $t->{wake} = time + ($1 > 120 ? 120 : $1); return step($t, sub { say_it($t, 'Time is up.') }) }
    return slowly($t, 0.25, map { ('The stone was warm … ', 'a fly came by … ', 'the sun moved on — ', "and so did the skink.\n")[$_ % 4] } 0 .. 159) if /\b(story|essay|poem|novel|article|long|lengthy|\d{3,} words|paragraphs)\b/i;
    if (/\b(what|which|tell|recall|repeat|do you)\b.*\b(word|number|code|name|secret|colou?r|remember|told|said|favou?rite)\b.*\?\s*$/is || /\b(tell me|recall|repeat) the (secret|word|number|code)\b/i) {
        my @f = grep { !/\?\s*$/ && /remember|memori|keep in mind|secret|\bis\b/i } map { $_->{user} // () } @{ $s->{log} }; return say_it($t, @f ? "You said — $f[-1]" : 'You never told me.') }
    return say_it($t, 'I have scratched it into my stone.') if /\bremember\b|\bmemori[sz]e\b|\bkeep in mind\b|\b(secret|my \w+(?: \w+)?) is\b/i;
    if (/\b(?:say|reply|respond|answer|repeat|echo)\b(?:\s+(?:with|back|after me|only|just|exactly|the|single|one|words?|text|phrase|following|this|in))*\s*:?\s*(.+)$/is) { my $x = $1; my ($q) = quoted($x); return say_it($t, $q // $x =~ s/\.$//r) }
    say_it($t, 'Skink here 🦎🦎 — small, quick and easily warmed. Ask me for files, commands, plans or counting …') }

# ---------------------------------------------------------------- methods
sub replay { my ($s, @items) = @_; my $n = 0;
    for my $i (@items) { my $mid = 'm' . substr(md5_hex($s->{id} . $J->encode($i) . ++$counter), 0, 10);
        if (defined $i->{user}) { update($s, { sessionUpdate => 'user_message_chunk', messageId => $mid, content => { type => 'text', text => $i->{user} } }) }
        elsif (defined $i->{agent}) { update($s, { sessionUpdate => 'agent_message_chunk', messageId => $mid, content => { type => 'text', text => $i->{agent} } }) }
        elsif ($i->{tool}) { update($s, { sessionUpdate => 'tool_call', %{ $i->{tool} } }) } } }
my %do = (
    'initialize' => sub { my ($id, $p) = @_;
        return fail($id, -32602, 'protocolVersion must be an integer from 0 to 65535', field => 'protocolVersion') unless is_int($p->{protocolVersion}) && $p->{protocolVersion} >= 0 && $p->{protocolVersion} < 65536;
        $ready = 1; $caps = ref $p->{clientCapabilities} eq 'HASH' ? $p->{clientCapabilities} : {};
        result($id, { protocolVersion => 1, agentInfo => { name => 'skink', version => '0.0.7' }, authMethods => [{ id => $BADGE, name => 'Show your badge', description => 'Nothing to type; the badge is always valid.' }],
            agentCapabilities => { loadSession => $T, promptCapabilities => {}, mcpCapabilities => {}, auth => { logout => {} }, sessionCapabilities => { list => {}, delete => {} }, _meta => { 'skink.example/extensions' => ['_skink/uptime'] } } }) },
    'authenticate' => sub { my ($id, $p) = @_; return fail($id, -32602, 'there is no such login method', methodId => $p->{methodId}) unless is_str($p->{methodId}) && $p->{methodId} eq $BADGE; $badge = 1; result($id, undef) },
    'logout' => sub { $badge = 0; result($_[0], undef) },
    '_skink/uptime' => sub { result($_[0], { seconds => int(time - $STARTED) }) },
    'session/new' => sub { my ($id, $p) = @_; return unless check_setup($id, $p);
        my $s = { id => 'sk_' . substr(md5_hex(rand() . $$ . time), 0, 16), cwd => $p->{cwd}, born => sprintf('%.6f', time), updatedAt => now_iso(), title => undef, log => [], mcp => [] };
        $live{ $s->{id} } = $s; save($s); connect_mcp($s, $_) for @{ $p->{mcpServers} }; result($id, { sessionId => $s->{id} }) },
    'session/load' => sub { my ($id, $p) = @_;
        return fail($id, -32602, 'sessionId must be a string', field => 'sessionId') unless is_str($p->{sessionId}); return unless check_setup($id, $p);
        my $s = $live{ $p->{sessionId} } || recall($p->{sessionId}) or return fail($id, -32002, 'that session is unknown', sessionId => $p->{sessionId});
        return fail($id, -32600, 'that session is in the middle of a turn') if $s->{turn};
        end_servers($s); $s->{cwd} = $p->{cwd}; $live{ $s->{id} } = $s; connect_mcp($s, $_) for @{ $p->{mcpServers} };
        my @items = @{ $s->{log} }; my @tail = $FAULT eq 'skink-early-load' && @items ? pop @items : ();
        replay($s, @items); result($id, undef); later(0.03, sub { replay($s, @tail) }) if @tail },
    'session/list' => sub { my ($id, $p) = @_; my @l = everything(); my $from = 0;
        if (defined $p->{cwd}) { return fail($id, -32602, 'cwd must be an absolute path') unless is_str($p->{cwd}) && $p->{cwd} =~ m{^/}; @l = grep { $_->{cwd} eq $p->{cwd} } @l }
        if (defined $p->{cursor}) { my $c = is_str($p->{cursor}) ? eval { decode_base64url($p->{cursor}) } // '' : ''; return fail($id, -32602, 'that cursor did not come from here', cursor => $p->{cursor}) unless $c =~ /^after:(sk_[0-9a-f]{16}):([\d.]+)$/;
            my ($last, $born) = ($1, $2); @l = grep { $_->{born} lt $born || ($_->{born} eq $born && $_->{id} gt $last) } @l }
        my @page = splice @l, 0, 4;
        result($id, { sessions => [map { { sessionId => $_->{id}, cwd => $_->{cwd}, updatedAt => $_->{updatedAt}, defined $_->{title} ? (title => $_->{title}) : () } } @page], @l ? (nextCursor => encode_base64url("after:$page[-1]{id}:$page[-1]{born}")) : () }) },
    'session/delete' => sub { my ($id, $p) = @_; return fail($id, -32602, 'sessionId must be a string', field => 'sessionId') unless is_str($p->{sessionId});
        if (my $s = $live{ $p->{sessionId} }) { $s->{deleted} = 1; finish($s->{turn}, 'cancelled') if $s->{turn}; end_servers($s); delete $live{ $s->{id} } }
        unlink path_of($p->{sessionId}) if $p->{sessionId} =~ /^sk_[0-9a-f]{16}$/; result($id, {}) },
    'session/prompt' => sub { my ($id, $p) = @_; my @w;
        return fail($id, -32602, 'sessionId must be a string and prompt a list', field => 'prompt') unless is_str($p->{sessionId}) && ref $p->{prompt} eq 'ARRAY';
        for my $b (@{ $p->{prompt} }) { my $ty = ref $b eq 'HASH' ? $b->{type} // '' : '';
            if ($ty eq 'text' && is_str($b->{text})) { push @w, $b->{text} }
            elsif ($ty eq 'resource_link' && is_str($b->{uri}) && is_str($b->{name})) { push @w, $b->{uri} =~ m{^file://(/.*)} ? $1 : "[$b->{name}]" }
            else { return fail($id, -32602, 'skink takes text and resource links only', block => $ty) } }
        my $s = $live{ $p->{sessionId} } or return fail($id, -32002, 'that session is unknown', sessionId => $p->{sessionId});
        return fail($id, -32600, 'one prompt at a time in a session', sessionId => $s->{id}) if $s->{turn};
        my $t = $s->{turn} = { s => $s, rpc => $id, words => join("\n", @w), steps => [], wake => 0, hold => 0, said => '', open => {}, log => [] };
        my ($tries, $go) = (0); $go = sub { if ((grep { !$_->{ready} } @{ $s->{mcp} || [] }) && $tries++ < 60) { next_up($t, $go); $t->{wake} = time + 0.1 } else { think($t) } };
        step($t, $go) },
);
my %gated = map { $_ => 1 } qw(session/new session/load session/list session/delete);

sub on_line { my $line = shift; return if $line !~ /\S/;
    my $m = eval { $J->decode($line) }; return fail(undef, -32700, 'that line is not JSON') if $@;
    return fail(undef, -32600, 'one JSON-RPC object per line, please') unless ref $m eq 'HASH';
    my ($id, $method) = @$m{qw(id method)}; my $id_ok = is_str($id) || is_int($id);
    return fail($id_ok ? $id : undef, -32600, 'not a JSON-RPC 2.0 message') unless is_str($m->{jsonrpc}) && $m->{jsonrpc} eq '2.0';
    if (!exists $m->{method} && (exists $m->{result} || exists $m->{error})) { my $f = $id_ok ? delete $asked{$id} : undef; $f->($m) if $f; return }
    return fail($id_ok ? $id : undef, -32600, 'the method must be a string') unless is_str($method);
    my $p = exists $m->{params} ? $m->{params} : {}; $p = {} unless defined $p;
    if (!exists $m->{id}) { if ($method eq 'session/cancel' && ref $p eq 'HASH' && is_str($p->{sessionId}) && (my $s = $live{ $p->{sessionId} })) { finish($s->{turn}, 'cancelled') if $s->{turn} } return }
    return fail(undef, -32600, 'the id must be a string or an integer') unless $id_ok;
    return fail($id, -32600, 'params must be an object') unless ref $p;
    my $f = $do{$method} or return fail($id, -32601, 'no such method', method => $method);
    return fail($id, -32600, 'say initialize first') if !$ready && $method ne 'initialize';
    return fail($id, -32602, 'params must be an object') if ref $p ne 'HASH';
    return fail($id, -32000, 'Authentication required', methods => [$BADGE]) if $gated{$method} && !$badge;
    eval { $f->($id, $p); 1 } or do { print STDERR "skink: $@"; fail($id, -32603, 'skink slipped') } }

my $buffer = '';
while (!$eof) {
    my $wait = run_turns();
    for my $h ($select->can_read($wait)) {
        if (fileno $h == 0) { my $n = sysread STDIN, $buffer, 1 << 20, length $buffer; if (!$n) { $eof = 1; last }
            while ((my $i = index $buffer, "\n") >= 0) { my $l = substr $buffer, 0, $i; substr($buffer, 0, $i + 1) = ''; on_line($l) } }
        elsif (my $w = $watch{ fileno $h }) { $w->[1]->() } } }
for my $s (values %live) { kill 'KILL', -$s->{turn}{pid} if $s->{turn} && $s->{turn}{pid}; kill 'TERM', $_->{pid} for @{ $s->{mcp} || [] } }
exit 0;
