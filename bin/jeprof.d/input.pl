# Input: the bytes of a profile, from a file, a pack, standard input or the network; how to undo
# their compression; and what the name of a file says. Parses nothing: see Dump. Callers: Dump,
# Pack, Box, Writing, and all that look at the beginning or the name of a file. A path is that of a
# file, PACK/NAME, a URL, or '-' for standard input; a file that has the name of a URL or member is
# meant. Standard input and pipes give their bytes once: a caller that needs them again keeps them.
package Input;

use Fcntl qw(O_RDONLY O_NONBLOCK O_NOCTTY F_SETFL);

use constant FRONT => 65536; # bytes in which the header of a profile is searched

# Compressed forms: [first bytes, program that unpacks them from stdin to stdout with -dcq].
my @packers = (["\x1f\x8b", 'gzip'], ["\xfd7zXZ\0", 'xz'], ["\x28\xb5\x2f\xfd", 'zstd'],
	['BZh', 'bzip2']);
my $packed = qr/\.(?:gz|xz|zst|bz2)/; # suffixes of such files

# How the first line of a pack and of each text form of a profile but collapsed stacks begins.
our $header = qr{heap_v2/\d|heap profile:|--- *(?:symbol|contention|mutex|Stacks:)|jeprof_pack/\d};

# ---- bytes ----
# All bytes of a path, compressed or not; of a black box the profile in it, but of a compressed box
# its bytes, see unpacked(). Fails as raw(), and for a box that jeprofctl cannot read.
sub slurp {
	my ($path) = @_;
	return is_box($path) ? Box::of_file($path) : raw($path);
}

# Whether a path is a file that begins as a black box does.
sub is_box {
	my ($path) = @_;
	return 0 unless $path ne '-' && -f $path && open my $fh, '<:raw', $path;
	read $fh, my $front, 8;
	return Box::is_one($front // '');
}

my $is_stdin_read = 0;

# All bytes of a path, as they are. Fails for a directory, for a device but a terminal, for standard
# input the second time, and for what cannot be read, fetched, or found in its pack.
sub raw {
	my ($path) = @_;
	Talk::fail(2, '-: standard input gives its bytes once, and is named twice') if $path eq '-' && $is_stdin_read++;
	return of_handle($path, \*STDIN) if $path eq '-';
	my $held = -e $path ? undef : Pack::member($path);
	return $held if defined $held;
	return Fetch::text($path) if Fetch::is_url($path);
	my $fh = opened($path);
	Talk::fail(1, "$path: is a device") if -b $fh || -c _ && !-t $fh;
	my $front = front_of_pipe($path, $fh);
	fcntl $fh, F_SETFL, O_RDONLY;
	return $front . of_handle($path, $fh);
}

# A handle of a path, which does not block, as open() of a pipe would until another program opens
# it. Fails for what cannot be opened and for a directory.
sub opened {
	my ($path) = @_;
	need_file($path);
	Talk::fail(1, "$path: is a socket") if -S $path;
	sysopen(my $fh, $path, O_RDONLY | O_NONBLOCK | O_NOCTTY) or Talk::fail(1, "$path: $!");
	return $fh;
}

# The first bytes of a pipe of opened(), if they are there; '' for another file and for a pipe whose
# writer has not written yet. Fails if nobody writes it within 5 s.
sub front_of_pipe {
	my ($path, $fh) = @_;
	my $front = '';
	my $end = time + 5;
	while (-p $fh && (sysread($fh, $front, FRONT) // return '') == 0) {
		return '' if Writing::is_descriptor($path); # of a shell: its end
		Talk::fail(1, "$path: nobody writes this pipe") if time > $end;
		select undef, undef, undef, 0.02;
	}
	return $front;
}

# Fails for a path where nothing is, or that cannot be followed, as into the directory of another
# user: that is no missing file.
sub need_path {
	my ($path) = @_;
	return if -e $path;
	my $hint = $path =~ m{^[\w.-]+:\d+(?:/|\z)} ? "; if it is a server: http://$path" : '';
	Talk::fail(1, "$path: " . ($!{ENOENT} || $!{ENOTDIR} ? "no such file$hint" : $!));
}

# Fails as need_path(), and for a directory.
sub need_file {
	my ($path) = @_;
	need_path($path);
	Talk::fail(1, "$path: is a directory") if -d $path;
	return;
}

# All bytes of a handle, as they are; the path is for the message of a failure to read.
sub of_handle {
	my ($path, $fh) = @_;
	binmode $fh;
	local $/;
	my $text = <$fh>;
	my $reason = "$!";
	Talk::fail(1, "$path: $reason") if $fh->error;
	return $text // '';
}

# The first $length bytes of a path, of a black box those of the profile in it; '' for standard
# input, a pipe and a file that cannot be read. For a URL, a pack and a box it fails as slurp().
sub beginning {
	my ($path, $length) = @_;
	my $held = -e $path ? undef : Pack::member($path);
	return substr $held, 0, $length if defined $held;
	return substr Fetch::text($path), 0, $length if Fetch::is_url($path);
	return substr Box::of_file($path), 0, $length if is_box($path);
	return '' unless -f $path && open my $fh, '<:raw', $path;
	my $text;
	read($fh, $text, $length);
	return $text // '';
}

# The first $length bytes of a path as beginning() gives them, of a compressed file those of what it
# holds. That is unpacked whole, with the failures and doubts of without_packer().
sub beginning_unpacked {
	my ($path, $length) = @_;
	my $text = beginning($path, $length);
	return defined packer_of($text) ? substr unpacked($path, slurp($path)), 0, $length : $text;
}

# The name of the program that unpacks these bytes; undef if they are in no form of @packers.
sub packer_of {
	my ($data) = @_;
	my ($row) = grep { index($data, $_->[0]) == 0 } @packers;
	return $row && $row->[1];
}

# The text of bytes that came from $path: unpacked, if they are compressed, twice at most; of a black
# box in them the profile. Fails if either cannot be done.
sub unpacked {
	my ($path, $data) = @_;
	my $text = without_packer($path, $data, 1);
	return Box::is_one($text) ? Box::of_bytes($path, $text) : $text;
}

# Bytes unpacked, or as they are if they are not compressed; $again: what is unpacked may be
# compressed once more, as a profile of pprof that gzip was told to pack. Fails if the program is not
# installed, or fails without output; if it fails after some output, that is returned, with a doubt.
sub without_packer {
	my ($path, $data, $again) = @_;
	my $name = packer_of(substr $data, 0, 8) // return $data;
	my $tool = Tool::find($name)
	    or Talk::fail(1, "$path: compressed by $name, and $name is not installed");
	my ($text, $is_whole) = Tool::output([$tool, '-dcq'], $data);
	Talk::fail(1, "$path: $name cannot read it") if !$is_whole && !length($text // '');
	Talk::doubt("$path: its $name data are truncated or damaged; what could be read is shown")
	    if !$is_whole;
	return $again ? without_packer($path, $text) : $text;
}

# Whether a file that begins with these bytes can be a profile: it is compressed, begins with "---",
# or one of its lines is a header. 0 for collapsed stacks, and for pprof's form not compressed.
sub may_be_profile {
	my ($head) = @_;
	return defined packer_of($head) || $head =~ /\A---|^[ \t\xef\xbb\xbf]*$header/m ? 1 : 0;
}

# ---- names ----
my $time = qr/\d{8}T[0-9.]+Z/;

# What the name of a dump says: { stem, pid, time, seq, letter }, all as text. The stem is the path
# up to and with the pid; time is the last one in the name (a session's profile has that of its
# start too), undef in names without one; seq is the number of the dump; letter is the kind. undef
# for the names of other files.
sub name_parts {
	my ($file) = @_;
	$file =~ /^(.*)\.(\d+)(?:\.($time)(?:_($time))?)?\.(\d+)\.([a-z])\d*\.(?:heap|box)$packed?$/s
	    or return undef;
	return { stem => "$1.$2", pid => $2, time => $4 // $3, seq => $5, letter => $6 };
}

# The name of a file without the suffixes of a profile: what an output is named after.
sub plain_name {
	my ($file) = @_;
	return $file =~ s/(?:\.heap|\.box)?$packed?$//r;
}

# The name of a file without the suffix of compression.
sub without_packed {
	my ($file) = @_;
	return $file =~ s/$packed$//r;
}

# Whether a name ends in one of the suffixes $suffixes, "heap|pb", or one and that of compression.
sub has_suffix {
	my ($file, $suffixes) = @_;
	return $file =~ /\.(?:$suffixes)$packed?$/ ? 1 : 0;
}
