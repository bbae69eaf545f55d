#!/usr/bin/perl
# jeprof live with a process that is slow or hangs: the lease of its session is renewed in time, a
# signal ends what waits, keys come in pieces. Without a process: jeprofctl is played by a script.
BEGIN { require Cwd; require((Cwd::abs_path(__FILE__) =~ s{[^/]*$}{}r) . 'common.pl') }
use strict;
use warnings;
our ($dir, $source, $jeprof);

# ---- the lease, by a clock that only the jobs move ----
do "$source/bin/jeprof.d/live.pl" or die $@;
my ($clock, $cost, $until, @jobs);
{
	no warnings qw(redefine once);
	*Live::ticks = sub { return $clock };
	*Live::ask = sub { my @words = @_; push @jobs, [$clock, @words]; return {} };
	*Live::end_of = sub { return (0, '') };
	*Live::take = sub { $clock += $cost };
	*Live::tell = sub { };
}
for my $case ([1, 2], [14, 2], [25, 2], [50, 2], [0, 3600], [50, 300]) {
	my ($late, $every) = (0);
	($clock, @jobs) = (1000);
	($cost, $every) = @$case;
	my $self = bless { every => $every, session => 3, pid => 7, renewed => $clock, slowest => 0,
		signals => 0, next => 0 }, 'Live';
	$until = $clock + $self->lease;
	while ($clock < 20000) {
		if ($self->{job} = $self->next_question) {
			$clock += 1;
			$self->{next} = $self->answer;
		} else {
			($clock) = sort { $a <=> $b } $self->{next}, $self->renewal;
		}
		$late++ if $clock > $until;
		next if $jobs[-1][1] ne 'set' || $jobs[-1][3] !~ /^max_seconds:(\d+)$/;
		$until = $jobs[-1][0] + $1;
	}
	is($late, 0, "an answer takes $cost s, one each $every s: the lease is never over");
	my @dumps = grep { $_->[1] eq 'dump' } @jobs;
	my $gap = $every > 4 * ($cost + 1) ? $every : 4 * ($cost + 1);
	cmp_ok(scalar @dumps, '>', 0.8 * 19000 / $gap, 'and a profile as often as before');
}

# ---- keys ----
defined(do "$source/bin/jeprof.d/screen.pl") or die $@;
sub typed {
	my @parts = @_;
	pipe my $out, my $in or die;
	open my $old, '<&', \*STDIN or die;
	open STDIN, '<&', $out or die;
	my @keys = map { syswrite $in, $_; join ' ', Screen::keys_typed() } @parts;
	close $in;
	push @keys, map { defined $_ ? $_ : 'gone' } Screen::keys_typed();
	open STDIN, '<&', $old or die;
	return join '|', @keys;
}
is(typed('s', 'qm'), 's|q m|gone', 'keys');
is(typed("a\e[Ab"), 'a b|gone', 'a sequence is left out');
is(typed("a\e[", 'Ab'), 'a|b|gone', 'one in two reads too');
is(typed("\e[1;", "5", "Cq"), '||q|gone', 'one in three');
is(typed("\eO", "Ps"), '|s|gone', 'of a key of functions');
is(typed("\e", 'q'), "\e|q|gone", 'ESC alone is a key');
is(typed("/\e"), "/ \e|gone", 'behind another one too');

# ---- the terminal: its modes are a word here ----
{
	package Modes;
	our ($now, $then) = ('plain'); # then: what a signal does just after they have changed
	sub getattr { $_[0]{is} = $now; return 1 }
	sub getlflag { return 0 }
	sub setlflag { $_[0]{is} = 'changed' }
	sub setcc { }
	sub setattr { $now = $_[0]{is}; my $act = $then; $then = undef; $act->() if $act }
}
{
	no warnings qw(redefine once);
	local *POSIX::Termios::new = sub { return bless {}, 'Modes' };
	my $drawn = '';
	local *Screen::put = sub { $drawn .= $_[0] };
	$Modes::then = sub { Screen::leave(); Screen::enter() };
	Screen::enter();
	is($Modes::now, 'changed', 'Ctrl-Z and fg while the terminal is taken: it is');
	Screen::leave();
	is($Modes::now, 'plain', 'and at the end it is as before');
	local *Screen::size = sub { return (3, 5) };
	$drawn = '';
	Screen::draw(['abcdefg', ''], ['hijklmn', '1']);
	is($drawn, "\e[H\e[Kabcde\r\n\e[K\e[1mhijkl\e[0m\r\n\e[J",
		'nothing is cleared where a line that fills the width has ended');
}

# ---- signals ----
mkdir "$dir/beside";
spew("$dir/beside/jeprof", slurp($jeprof));
sub beside {
	my ($hangs, @signals) = @_;
	unlink "$dir/asked";
	spew("$dir/beside/jeprofctl", <<"END");
#!/bin/sh
trap 'echo "\$1 gave up" >>'$dir/asked'; echo "jeprofctl: interrupted" >&2; exit 1' TERM
echo "\$*" >>'$dir/asked'
case \$1 in
status) echo '{"pid":7,"name":"slow","state":"idle"}';;
start) echo '{"pid":7,"session":3}';;
esac
case " $hangs " in *" \$1 "*) while :; do sleep 0.05; done;; esac
END
	chmod 0755, "$dir/beside/jeprofctl";
	my $live = fork // die;
	if (!$live) {
		open STDOUT, '>', "$dir/out";
		open STDERR, '>', "$dir/err";
		exec $^X, "$dir/beside/jeprof", 'live', '--once', 7;
	}
	my $has_ended = 0;
	for my $case (@signals) {
		my ($pattern, $signal) = @$case;
		until_true(sub { -e "$dir/asked" && slurp("$dir/asked") =~ $pattern });
		kill $signal, $live;
	}
	until_true(sub { $has_ended = waitpid($live, POSIX::WNOHANG()) == $live });
	my $status = $?;
	if (!$has_ended) {
		kill 'KILL', $live;
		waitpid $live, 0;
		return 'it does not end';
	}
	return join ' ', $status >> 8, slurp("$dir/asked") =~ s/^(\w+)(?: (gave) up)?.*\n/$1 . ($2 ? '-gave' : '') . ' '/gemr =~ s/ \z//r;
}
is(beside('dump', [qr/^dump/m, 'INT']), '130 status start dump dump-gave stop',
	'a signal while the process does not give a profile: it is given up, the session is ended');
is(beside('dump stop', [qr/^dump/m, 'INT'], [qr/^stop/m, 'INT']),
	'130 status start dump dump-gave stop stop-gave', 'nor ends the session: the next one ends that');
like(slurp("$dir/err"),
	qr/^jeprof: interrupted; the session ends by itself, at most 62 seconds after/m, 'and it is told');
is(beside('status', [qr/^status/m, 'TERM']), '143 status status-gave', 'a signal before the session');
like(beside('start', [qr/^start/m, 'INT'], [qr/^start/m, 'TERM']),
	qr/^1(?:30|43) status start start-gave$/,
	'a start is given up at the second one');
done_testing();
