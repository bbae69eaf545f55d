# Talk: messages to the user: notes, doubts, failures. Of notes and doubts the same text is printed
# once. A doubt says that the result may be wrong or partial, and makes the exit code 3, unless a
# verb sets another ($main::status). Called by all of bin/jeprof.d.
package Talk;

our @doubted; # the texts of the doubts, each once
our $names_matter = 1; # 0: that names are missing is a note, not a doubt
our $listener; # a sub that gets each message instead of standard error, while the screen is in use
my %said; # the messages that were printed

# Prints a message to standard error, or hands it to the listener, if it is not known yet.
sub say_once {
	my ($text) = @_;
	return if $said{$text}++;
	return $listener->(clean($text)) if $listener;
	print STDERR 'jeprof: ', clean($text), "\n";
}

# A text of a profile or an object file as it may be shown on a terminal: no control character,
# neither of ASCII nor of the upper half (alone or as UTF-8), and no mark that turns the direction
# of writing. Its length stays.
sub clean {
	my ($text) = @_;
	$text =~ tr{\x00-\x1f\x7f}{?};
	return $text unless $text =~ /[\x80-\xff]/;
	$text =~ s/\xc2[\x80-\x9f]/??/g;
	$text =~ s/\xe2(?:\x80[\xaa-\xae]|\x81[\xa6-\xa9])/???/g;
	$text =~ tr{\x80-\x9f}{?} unless is_utf8($text);
	return $text;
}

# Whether a text is UTF-8; utf8::decode() also takes what that does not have, surrogates and numbers
# above 0x10ffff.
sub is_utf8 {
	my ($text) = @_;
	return $text !~ /\xed[\xa0-\xbf]|\xf4[\x90-\xbf]|[\xf5-\xff]/ && utf8::decode($text);
}

# A text of several lines as clean() makes each.
sub clean_lines {
	my ($text) = @_;
	return join "\n", map { clean($_) } split /\n/, $text, -1;
}

# A message that changes nothing in the exit code.
sub note {
	my ($text) = @_;
	say_once($text);
}

# A message that makes the exit code 3, see the head.
sub doubt {
	my ($text) = @_;
	push @doubted, $text unless grep { $_ eq $text } @doubted;
	say_once($text);
}

# A doubt that is about names or lines alone: sums and rates are right without them.
sub doubt_names {
	my ($text) = @_;
	return $names_matter ? doubt($text) : note($text);
}

# A word as a shell takes it, in quotes if it needs them; of --NAME=VALUE only the value is quoted.
sub word {
	my ($text) = @_;
	my $name = $text =~ s/^(--[a-z_-]+=)//i ? $1 : '';
	return $name . $text if $text =~ m{^[A-Za-z0-9_./:=+,@%-]+\z};
	return "$name'" . $text =~ s/'/'\\''/gr . "'";
}

# A command line of this program to be typed. Arguments are words, and references to arrays of names
# of files: one that begins as an option is told with its directory, "./-x".
sub command {
	my @words = map { ref $_ ? map { /^-./ ? "./$_" : $_ } @$_ : $_ } @_;
	return join ' ', $0 =~ /^\w+=/ ? "'$0'" : word($0), map { word($_) } @words;
}

# The name of this program, without its directory: "jeprof", or that which a package gave it, for
# command lines that may be typed elsewhere.
sub name {
	my $name = $0 =~ s{.*/}{}sr;
	return $name =~ /^[A-Za-z0-9_][A-Za-z0-9_.-]*\z/ ? $name : 'jeprof';
}

# Suggests a command to type next: its words as command() takes them.
sub next_is {
	note('next: ' . command(@_));
}

# How many characters a text has, if it is UTF-8; else how many bytes.
sub width {
	my ($text) = @_;
	utf8::decode($text);
	return length $text;
}

# A part of a text, counted as width() does, so that no character is cut apart.
sub piece {
	my ($text, $start, $count) = @_;
	utf8::decode($text);
	$text = substr $text, $start, $count;
	utf8::encode($text) if utf8::is_utf8($text);
	return $text;
}

# Fails if --json is given although the result itself goes to standard output.
sub no_json {
	my ($option) = @_;
	fail(2, '--json tells which file was made, and here the result goes to standard output; -o FILE') if $option->{json};
}

# Ends the command with this exit code: dies with { code, text }. Main prints the text, or the
# interactive mode, or whoever can go on without.
sub fail {
	my ($code, $text) = @_;
	die { code => $code, text => $text };
}

# ---------------------------------------------------------------------------------------------------
# Tool: finding and running other programs, never through a shell, but for that of limited().
package Tool;

use Cwd ();

our $spec = ''; # --tools: PREFIX and NAME:PATH, comma separated
my %found; # name => path or undef

# The path of a program: what --tools says, or without it JEPROF_TOOLS (NAME:PATH is not checked),
# else from the directory of jeprof, else from PATH; undef if it is nowhere. The answer is kept.
sub find {
	my ($name) = @_;
	return $found{$name} if exists $found{$name};
	return $found{$name} = search($name);
}

# The directory of jeprof itself.
sub own_dir {
	my $path = Cwd::abs_path($0) // $0;
	return $path =~ m{^(.*)/} ? $1 : '.';
}

# The path of a program, as find() says it, looked for anew.
sub search {
	my ($name) = @_;
	my @dirs = split /:/, $ENV{PATH} // '';
	my $own = own_dir();
	for my $part (grep { length } split /,/, $spec || $ENV{JEPROF_TOOLS} || '') {
		if ($part =~ /^([^:]+):(.*)$/) {
			return $2 if $1 eq $name;
		} elsif (-x "$part$name") {
			return "$part$name";
		}
	}
	for my $dir (grep { length } $own, @dirs) {
		return "$dir/$name" if -f "$dir/$name" && -x _;
	}
	return undef;
}

# As output(), but returns the output alone, undef if the program could not run or failed.
sub filter {
	my ($text, $is_done) = output(@_);
	return $is_done ? $text : undef;
}

# The command of a program that gets at most 1 GiB of memory and 5 seconds of the processor.
sub limited {
	my ($path) = @_;
	return ['/bin/sh', '-c', 'ulimit -v 1048576; ulimit -t 5; exec "$0"', $path];
}

# Runs @$command with the text $input on its stdin and without standard error. Returns the output,
# also of a program that failed, and whether it ended with 0; undef if no child could be made. A
# program that cannot be executed is one that failed without output. If $most is given, a program
# that writes more bytes is one that failed; the rest is not read, which ends it.
sub output {
	my ($command, $input, $most) = @_;
	my ($in, $writer) = spool($input) or return undef;
	my $pid = open(my $out, '-|') // return undef;
	child($command, $in) if !$pid;
	binmode $out;
	my ($text, $is_less) = ('', 1);
	while ($is_less && read $out, $text, 1 << 20, length $text) {
		$is_less = length $text <= ($most // length $text);
	}
	my $is_done = close($out) && $is_less;
	close $in;
	waitpid $writer, 0;
	return ($text, $is_done);
}

# (a handle that gives a text, the pid of the child that writes it): no file is needed, for which there
# may be no room or no directory. () if no child could be made. The caller closes and waits.
sub spool {
	my ($text) = @_;
	require POSIX;
	pipe my $out, my $in or return;
	my $pid = fork // return;
	if (!$pid) {
		close $out;
		$SIG{PIPE} = 'DEFAULT';
		binmode $in;
		print {$in} $text;
		close $in;
		POSIX::_exit(0);
	}
	return ($out, $pid);
}

# Runs @command with $input on its standard input, where it may seek: bytes, or what a handle gives;
# undef: nothing. Returns its exit code (128 + N after signal N, 127 if it could not be executed, 1 if
# it could not be started) and the whole of its standard output and standard error.
sub asked {
	my ($input, @command) = @_;
	require POSIX;
	my $in;
	if (defined $input) {
		open($in, '+>', undef) && binmode($in) && copied($input, $in) && seek($in, 0, 0)
		    or return (1, '', "a temporary file: $!");
	} else {
		open($in, '<', '/dev/null') or return (1, '', $!);
	}
	pipe my $err, my $to_err or return (1, '', $!);
	my $pid = open(my $out, '-|') // return (1, '', $!);
	if (!$pid) {
		open STDIN, '<&', $in;
		open STDERR, '>&', $to_err;
		no warnings 'exec';
		exec { $command[0] } @command or POSIX::_exit(127);
	}
	close $to_err;
	my ($text, $said) = all_of($out, $err);
	close $out;
	return ($? & 127 ? 128 + ($? & 127) : $? >> 8, $text, $said);
}

# Writes bytes, or piece by piece what a handle gives, to $out. False, with $!, if that fails.
sub copied {
	my ($from, $out) = @_;
	return print {$out} $from if !ref $from;
	my $n;
	while ($n = sysread $from, my $piece, 1 << 16) { print {$out} $piece or return 0 }
	return defined $n;
}

# All that handles give until each ends, read as it comes, so that none makes its writer wait.
sub all_of {
	my @handles = @_;
	my @texts = ('') x @handles;
	my %open = map { $_ => 1 } 0 .. $#handles;
	while (%open) {
		my $ready = '';
		vec($ready, fileno $handles[$_], 1) = 1 for keys %open;
		next if select($ready, undef, undef, undef) < 0;
		for my $i (grep { vec $ready, fileno $handles[$_], 1 } keys %open) {
			delete $open{$i} unless sysread $handles[$i], $texts[$i], 1 << 16, length $texts[$i];
		}
	}
	return @texts;
}

# Becomes the program, in a child: with this standard input, and without standard error.
sub child {
	my ($command, $in) = @_;
	open STDIN, '<&', $in;
	open STDERR, '>', '/dev/null';
	no warnings 'exec';
	exec { $command->[0] } @$command or require POSIX, POSIX::_exit(127);
}
