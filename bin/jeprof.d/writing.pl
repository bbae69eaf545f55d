# Writing: the file of -o. A regular file is written beside its name and renamed, so a failed run
# leaves what was there, and gets the permissions of what it replaces; symbolic links are followed
# first, so the link stays. An open descriptor
# (/dev/fd/N, /dev/stderr) is written as it was opened, by > or >>. Anything else (a device, a fifo,
# a file that only a link of /proc reaches) is opened and written as it is. What the command reads
# is never written: neither its inputs nor the program, nor an object that names came from; and no
# ELF file or heap profile is replaced. Callers: Main, which calls begin() before a command works;
# the verbs that make a file; Shell.
package Writing;

use Errno qw(ENXIO);
use Fcntl qw(O_WRONLY O_CREAT O_EXCL O_TRUNC O_NONBLOCK O_NOCTTY F_SETFL);

our @inputs; # the files that the command names as its input

my $bytes_written = 0; # length of the last file

# Remembers what a command with these arguments reads; $verb is '' in a mode without a verb. For the
# verbs that write a file, judges the target of -o before the work: fails if it may not be written,
# and sets -o to - if it is standard output.
sub begin {
	my ($option, $verb, @files) = @_;
	@files = ($option->{lib}, eval { Run::find_program($files[0]) } // ())
	    if $verb eq 'run' && @files;
	@inputs = map { file_of($_) } grep { length }
	    @files, @$option{qw(base exe)}, @{ $option->{add_lib} };
	return unless $verb =~ /^(?:flame|report|run|export|symbolize|pack|salvage)$/;
	return unless length $option->{o} && $option->{o} ne '-';
	$option->{o} = '-' if is_stdout($option->{o});
	check($option->{o}) if $option->{o} ne '-';
}

# The file of a path: PACK/NAME is read from PACK.
sub file_of {
	my ($path) = @_;
	$path = $1 while !-e $path && $path =~ m{^(.+)/[^/]*$}s;
	return $path;
}

# Whether the path leads to the file, pipe or terminal that standard output is (/dev/stdout does).
# False for other devices such as /dev/null, which are opened by their name.
sub is_stdout {
	my ($file) = @_;
	my @own = stat STDOUT or return 0;
	return 0 unless -f _ || -p _ || -t STDOUT;
	my @its = stat $file or return 0;
	return "@own[0, 1]" eq "@its[0, 1]";
}

# Fails if the file is there and may not be replaced.
sub check {
	my ($file) = @_;
	my ($device, $inode) = stat $file or return;
	return unless -f _;
	my %used = map { $_->{elf} ? ($_->{elf}{path} // '' => 1) : () } grep { ref } @Places::object;
	for my $input (@inputs, sort keys %used) {
		my @its = stat $input or next;
		Talk::fail(2, "$file: an input of this command ($input); it is not overwritten")
		    if $its[0] == $device && $its[1] == $inode;
	}
	my $head = Input::beginning($file, 64);
	my $is_profile = $head =~ m{^(?:heap_v2/|heap profile:)}
	    || defined Input::packer_of($head) && Input::has_suffix($file, 'heap');
	my $what = $head =~ /^\x7fELF/ ? 'a program or library' : $is_profile ? 'a heap profile' : return;
	Talk::fail(2, "$file: is $what; it is not overwritten (name another file, or remove it)");
}

# The number of the descriptor of this process that a path stands for; undef if it is another path.
sub descriptor {
	my ($path) = @_;
	return $path =~ m{^/(?:dev|proc/(?:self|thread-self|$$))/fd/(\d+)\z} ? $1 : undef;
}

# Whether a path is that of a descriptor of a process.
sub is_descriptor {
	my ($path) = @_;
	return defined descriptor($path) || $path =~ m{^/proc/\d+/(?:task/\d+/)?fd/\d+\z} ? 1 : 0;
}

# The path that the symbolic links of a path lead to, at most up to an open descriptor: what that is
# open on has its name in a link too, but is not to be replaced. undef if the links go round.
sub followed {
	my ($path) = @_;
	for (1 .. 40) {
		return $path if is_descriptor($path);
		my $next = readlink $path // return $path;
		$path = $next =~ m{^/} || $path !~ m{^(.*/)}s ? $next : "$1$next";
	}
	return undef;
}

# Writes the text to the file and returns the path that was written; fails if it cannot, or if
# check() does. Without a text writes nothing: fails if a regular file that is there could not be
# replaced.
sub file {
	my ($file, $text) = @_;
	check($file);
	$bytes_written = length($text // '');
	my $path = followed($file) // Talk::fail(1, "$file: too many levels of symbolic links");
	my @there = stat $file;
	my @same = @there && -f _ && !is_descriptor($path) ? stat $path : ();
	return defined $text ? into($file, $path, $text) : $path
	    if @there && !(@same && $there[0] == $same[0] && $there[1] == $same[1]);
	my $part = ($path =~ m{^(.*/)}s ? $1 : '') . sprintf 'jeprof.%d.%06d.part', $$, rand 1e6;
	sysopen(my $fh, $part, O_WRONLY | O_CREAT | O_EXCL, @there ? 0600 : 0666) or Talk::fail(1, "$file: $!");
	return unlink($part) && $path unless defined $text;
	give_rights($fh, @there[2, 4, 5]) if @there;
	my $reason = fault_of($fh, $text);
	return $path if !length $reason && rename $part, $path;
	$reason = $! unless length $reason;
	unlink $part;
	Talk::fail(1, "$file: $reason");
}

# Gives a file owner, group and mode as far as this process may: as > would leave them, without
# set-user-id. The owner first, so that the mode grants nothing to another one.
sub give_rights {
	my ($fh, $mode, $owner, $group) = @_;
	chown($owner, $group, $fh) || chown -1, $group, $fh;
	chmod $mode & 0777, $fh;
	return;
}

# Writes all to a handle and closes it; returns what went wrong, '' if nothing did. That a file may not
# become so large (ulimit -f) is an error too, not the end by a signal.
sub fault_of {
	my ($fh, $text) = @_;
	local $SIG{XFSZ} = 'IGNORE';
	binmode $fh;
	my $reason = print({$fh} $text) ? '' : "$!";
	return close($fh) || length $reason ? $reason : "$!";
}

# Writes to what exists and is not replaced by name: what a descriptor of this process is open on, at
# its position; anything else from its beginning. $path is where the links of $file lead. Returns
# $file. If the reader of a pipe closes it, that is an error, not SIGPIPE.
sub into {
	my ($file, $path, $text) = @_;
	local $SIG{PIPE} = 'IGNORE';
	my $number = descriptor($path);
	my $fh;
	defined $number ? open($fh, '>&', $number) || Talk::fail(1, "$file: $!") : ($fh = in_place($file));
	my $reason = fault_of($fh, $text);
	Talk::fail(1, "$file: $reason") if length $reason;
	return $file;
}

# A handle that writes what is there from its beginning. A pipe gets 5 s until another program reads
# it: open() alone would wait for ever.
sub in_place {
	my ($file) = @_;
	my $end = time + 5;
	my $fh;
	until (sysopen $fh, $file, O_WRONLY | O_TRUNC | O_NONBLOCK | O_NOCTTY) {
		Talk::fail(1, "$file: $!") unless $! == ENXIO && -p $file;
		Talk::fail(1, "$file: nobody reads this pipe") if time > $end;
		select undef, undef, undef, 0.02;
	}
	fcntl $fh, F_SETFL, O_WRONLY;
	return $fh;
}

# Prints a text that a verb makes for -o, if that is for standard output: with "-o -", and without -o
# if standard output is no terminal or if $is_json, that is, the text itself is what --json asks for;
# without $is_json fails for --json. Returns whether it did; if not, the text is for a file.
sub try_stdout {
	my ($option, $text, $is_json) = @_;
	return 0 unless length $option->{o} ? $option->{o} eq '-' : $is_json || !-t STDOUT;
	Talk::no_json($option) unless $is_json;
	binmode STDOUT;
	print $text;
	return 1;
}

# Whether a command that is typed later finds in this file what was written.
sub can_be_read {
	my ($file) = @_;
	return -f $file && !defined descriptor(followed($file) // '') ? 1 : 0;
}

# Prints the name of the file that was made, and a note "next" with the command $next, which reads
# the file; $where is a text behind "next". With --json prints an object. If no command can read the
# target, there is no next.
sub made {
	my ($option, $file, $next, $where) = @_;
	my $is_file = can_be_read($file);
	if ($option->{json}) {
		return printf "{\"file\":%s,\"bytes\":%d,\"doubts\":%d,\"next\":%s}\n",
		    Top::json_string($file),
		    $bytes_written, scalar @Talk::doubted, $is_file ? Top::json_string($next) : 'null';
	}
	print Talk::clean($file), "\n";
	Talk::note('next' . ($where // '') . ": $next") if $is_file;
}
