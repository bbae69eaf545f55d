# Input: the bytes of a profile, from a file, a pack, standard input or the network, without their
# compression; and what the name of a file says. Parses nothing: see Dump. Callers: Dump, Pack, and
# the verbs that look at the beginning or the name of a file.
package Input;

use constant FRONT => 65536; # bytes in which the header of a profile is searched

# [first bytes, program that unpacks it and writes to stdout with -dc]
my @packers = (["\x1f\x8b", 'gzip'], ["\xfd7zXZ\0", 'xz'], ["\x28\xb5\x2f\xfd", 'zstd']);
my $packed = qr/\.(?:gz|xz|zst)/; # suffixes of what they made

# The first line of each kind of profile.
our $header = qr{heap_v2/\d|heap profile:|--- *(?:symbol|contention|Stacks:)|jeprof_pack/\d};

# ---- bytes ----
# A black box is told by the profile in it.
sub slurp {
	my ($path) = @_;
	return is_box($path) ? Box::of_file($path) : raw($path);
}

sub is_box {
	my ($path) = @_;
	return 0 unless $path ne '-' && -f $path && open my $fh, '<:raw', $path;
	read $fh, my $front, 8;
	return Box::is_one($front // '');
}

sub raw {
	my ($path) = @_;
	my $held = -e $path ? undef : Pack::member($path);
	return $held if defined $held;
	return Fetch::text($path) if Fetch::is_url($path);
	my $fh;
	if ($path eq '-') {
		$fh = \*STDIN;
	} else {
		Talk::fail(1, "$path: no such file") unless -e $path;
		Talk::fail(1, "$path: is a directory") if -d _;
		open($fh, '<', $path) or Talk::fail(1, "$path: $!");
	}
	binmode $fh;
	local $/;
	my $text = <$fh>;
	return $text // '';
}

# The first bytes of a file or of a profile in a pack; '' if it cannot be read.
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

# The same of what is in a compressed file.
sub beginning_unpacked {
	my ($path, $length) = @_;
	my $text = beginning($path, $length);
	return defined packer_of($text) ? substr unpacked($path, slurp($path)), 0, $length : $text;
}

# The program that made these bytes; undef if they are not compressed.
sub packer_of {
	my ($data) = @_;
	my ($row) = grep { index($data, $_->[0]) == 0 } @packers;
	return $row && $row->[1];
}

sub unpacked {
	my ($path, $data) = @_;
	my $text = without_packer($path, $data);
	return Box::is_one($text) ? Box::of_bytes($path, $text) : $text;
}

sub without_packer {
	my ($path, $data) = @_;
	my $name = packer_of(substr $data, 0, 8) // return $data;
	my $tool = Tool::find($name)
	    or Talk::fail(1, "$path: compressed by $name, and $name is not installed");
	my ($text, $is_whole) = Tool::output([$tool, '-dcq'], $data);
	Talk::fail(1, "$path: $name cannot read it") if !$is_whole && !length($text // '');
	Talk::doubt("$path: its $name data are truncated or damaged; what could be read is shown")
	    if !$is_whole;
	return $text;
}

# Can a file that begins with these bytes be a profile? It is compressed, or one of its lines is a
# header.
sub may_be_profile {
	my ($head) = @_;
	return defined packer_of($head) || $head =~ /\A---|^[ \t\xef\xbb\xbf]*$header/m ? 1 : 0;
}

# ---- names ----
my $time = qr/\d{8}T[0-9.]+Z/;

# What the name of a dump says: { stem, pid, time, seq, letter }. The stem is the name up to the
# pid; the time is undef in names without one. undef for the names of other files.
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

sub without_packed {
	my ($file) = @_;
	return $file =~ s/$packed$//r;
}

sub has_suffix {
	my ($file, $suffixes) = @_;
	return $file =~ /\.(?:$suffixes)$packed?$/ ? 1 : 0;
}
