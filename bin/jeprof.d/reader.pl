# Dump: one profile file as data. Stacks stay text until Places turns them into numbers.
package Dump;

sub read_file {
	my ($path) = @_;
	my $self = of_text($path, unzipped($path, slurp($path)));
	Fetch::add_names($self) if Fetch::is_url($path);
	return $self;
}

# The same of a text that is here already; the path is what it is called.
sub of_text {
	my ($path, $text) = @_;
	my $self = bless { file => $path, meta => {}, threads => [], maps => [], modules => [],
	    stacks => [],
		symbols => undef, program => undef }, 'Dump';
	Talk::fail(1, "$path: the file is empty") unless length $text;
	$text = ($text =~ /\A[\x0a-\x7a]/ && $text !~ /\A[-h]/ ? Foreign::pprof($path, $text) : undef)
	    // $text;
	$text =~ tr/\r//d if index($text, "\r\n") >= 0;
	$text = $self->read_wrapper($text);
	Talk::fail(1, "$path: a pack of profiles: name one of them, $path/NAME (jeprof ls $path)")
	    if index($text, Pack::MAGIC()) == 0;
	$text = $self->read_wrapper(Foreign::heap_text($path, $text)
	    // Talk::fail(1, "$path: not a heap profile (its first line is not heap_v2/...)"))
		if $text !~ m{^heap_v2/\d};
	Talk::fail(1, "$path: not a heap profile (its first line is not heap_v2/...)")
		unless $text =~ m{^heap_v2/(\d+)\n|^heap_v2/(\d+)$};
	$self->{rate} = $1 // $2;
	$self->{text} = $text;
	$self->parse;
	return $self;
}

# Of a file that may be long its metadata alone, as they stand at its beginning.
sub head {
	my ($path) = @_;
	my $self = bless { file => $path, meta => {} }, 'Dump';
	my $text = beginning($path, 8192);
	$self->{meta}{$1} = $2 while $text =~ /^# jemalloc\.([^=\n]+)=(.*)\n/mg;
	return $self;
}

# The first bytes of a file or of a profile in a pack; '' if it cannot be read.
sub beginning {
	my ($path, $length) = @_;
	my $held = -e $path ? undef : Pack::member($path);
	return substr $held, 0, $length if defined $held;
	return substr Fetch::text($path), 0, $length if Fetch::is_url($path);
	return '' unless -f $path && open my $fh, '<:raw', $path;
	my $text;
	read($fh, $text, $length);
	return $text // '';
}

sub slurp {
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

sub unzipped {
	my ($path, $data) = @_;
	return $data if substr($data, 0, 2) ne "\x1f\x8b";
	my $gzip = Tool::find('gzip') or Talk::fail(1, "$path: compressed, and gzip is not installed");
	my ($text, $is_whole) = Tool::output([$gzip, '-dc'], $data);
	Talk::fail(1, "$path: gzip cannot read it") if !$is_whole && !length($text // '');
	Talk::doubt("$path: its gzip data are truncated or damaged; what could be read is shown")
	    if !$is_whole;
	return $text;
}

# A symbolized profile carries its names in front: "--- symbol", lines, "---", "--- heap".
sub read_wrapper {
	my ($self, $text) = @_;
	return $text unless $text =~ /\A--- symbol\n/gc;
	$self->{symbols} //= {};
	$self->{program} = $1 if $text =~ /\Gbinary=([^\n]*)\n/gc;
	while ($text =~ /\G0x([0-9a-f]{1,16}) ([^\n]*)\n/gc) {
		my ($address, $names) = (hex $1, $2);
		$self->{symbols}{$address} = [split /--/, Talk::clean($names)];
	}
	$text =~ /\G---\n(?:--- heap\n)?/gc
		or Talk::fail(1, "$self->{file}: its symbol part is damaged at byte " . (pos($text) // 0));
	return substr $text, pos $text;
}

my $hex = qr/[0-9a-f]{1,16}/;
my $number = qr/\d{1,20}/;
my $counts = qr/($number): ($number) \[($number): ($number)\]/;

sub parse {
	my ($self) = @_;
	my $text = $self->{text};
	$text =~ /\A[^\n]*\n?/gc;
	while ($text =~ /\G#([^\n]*)\n/gc) {
		my $line = $1;
		$self->{meta}{$1} = $2 if $line =~ /^ jemalloc\.([^=]+)=(.*)$/;
	}
	while ($text =~ /\G  t(\*|\d+): $counts(?: ([^\n]*))?\n/gc) {
		push @{ $self->{threads} }, [$1, Talk::clean($6 // '')] if $1 ne '*';
	}
	$self->read_stacks(\$text);
	my $at = pos($text) // 0;
	$self->read_maps($at) if $text =~ /\G\n?MAPPED_LIBRARIES:\n/gc
	    || $text =~ /\G\n?(?=# module )/gc
		|| $text =~ /\G\n?(?=# end )/gc;
	$self->check_end($at);
}

# Each as [frames, objects, bytes, objects and bytes ever allocated, lines of its threads]; of one
# thread alone its lines would say the same.
sub read_stacks {
	my ($self, $text) = @_;
	my $stacks = $self->{stacks};
	my $lines = qr/(?:  t\d[^\n]*\n)*+/;
	if (@{ $self->{threads} } > 1) {
		push @$stacks, [$1, $2 + 0, $3 + 0, $4 + 0, $5 + 0, $6]
		    while $$text =~ /\G@([^\n]*)\n  t\*: $counts\n($lines)/gc;
	} else {
		push @$stacks, [$1, $2 + 0, $3 + 0, $4 + 0, $5 + 0]
		    while $$text =~ /\G@([^\n]*)\n  t\*: $counts\n$lines/gc;
	}
}

sub read_maps {
	my ($self, $from) = @_;
	for my $line (split /\n/, substr $self->{text}, $from) {
		if (my ($start, $end, $bias, $id, $path) =
		    $line =~ /^# module (?:0x)?($hex)-(?:0x)?($hex) (?:0x)?($hex) (\S+) (.*)$/) {
			$path =~ s{ \(deleted\)$}{};
			push @{ $self->{modules} }, { start => hex $start, end => hex $end, bias => hex $bias,
				id => $id =~ /^[0-9a-f]{4,}$/ ? $id : '', path => $path };
		} elsif (my $map = map_line($line)) {
			push @{ $self->{maps} }, $map;
		}
	}
}

# One line of /proc/PID/maps, or "start-end: path"; undef for anything else or without a file.
sub map_line {
	my ($line) = @_;
	my %map;
	if ($line =~ /^($hex)-($hex) (\S+) ($hex) \S+ \d+\s+(\S.*)$/) {
		@map{qw(start end perms offset path)} = (hex $1, hex $2, $3, hex $4, $5);
	} elsif ($line =~ /^(?:0x)?($hex)-(?:0x)?($hex): (.+)$/) {
		@map{qw(start end perms offset path)} = (hex $1, hex $2, 'r-xp', 0, $3);
	} else {
		return undef;
	}
	$map{gone} = $map{path} =~ s/ \(deleted\)$//;
	$map{path} =~ s/\\012/\n/g;
	return \%map;
}

# Our dumps end with a line that counts the bytes before it. Others can only be seen to lack their
# maps, or to stop in mid-line.
sub check_end {
	my ($self, $at) = @_;
	my $text = $self->{text};
	my $name = $self->{file};
	if (%{ $self->{meta} } || $text =~ /\n# end \d+\n?\z/) {
		return Talk::doubt("$name: truncated: its end line is missing; what is there is shown")
			unless $text =~ /(?:\A|\n)# end (\d+)\n\z/;
		my $before = length($text) - length("# end $1\n");
		return Talk::doubt("$name: damaged: its end line says $1 bytes, there are $before")
		    if $1 != $before;
	}
	my $rest = substr $text, $at, 40;
	if ($rest =~ /^[@ ]/ || substr($text, -1) ne "\n") {
		Talk::doubt("$name: truncated after " . scalar(@{ $self->{stacks} })
		    . ' stacks; what is there is shown');
	} elsif (length $rest && $rest !~ /^\n*(?:MAPPED_LIBRARIES:|# |\z)/) {
		Talk::doubt("$name: not understood from byte $at on; what was read before is shown");
	} elsif (!@{ $self->{maps} } && !@{ $self->{modules} } && !$self->{symbols}) {
		Talk::doubt("$name: has no list of mapped objects: truncated, or written where there is none");
	}
}

# Un-samples one pair of counts: what the samples stand for, to 1/1024 of a byte: sums of such
# numbers are exact, so that they are equal in whatever order and by whichever program (that of a
# report is the browser) they are added.
sub estimate {
	my ($self, $objects, $bytes) = @_;
	my $rate = $self->{rate};
	return ($objects, $bytes) if $objects == 0 || $bytes == 0 || $rate == 0;
	my $ratio = ($bytes / $objects) / $rate;
	my $covered = $ratio > 1e-9 ? 1 - exp(-$ratio) : $ratio;	# 1 - exp would lose its digits
	return (int($objects / $covered * 1024 + 0.5) / 1024,
	    int($bytes / $covered * 1024 + 0.5) / 1024);
}

sub time_text {
	my ($self) = @_;
	my $meta = $self->{meta};
	for my $key (qw(dump_time time)) {
		return Talk::clean($meta->{$key}) if defined $meta->{$key};
	}
	return '';
}

# pid of the process, from the metadata or from the usual file name; '' if neither says.
sub pid {
	my ($self) = @_;
	return $self->{meta}{pid} if ($self->{meta}{pid} // '') =~ /^\d+$/;
	return $self->{file} =~ /\.(\d+)(?:\.\d{8}T[0-9.]+Z(?:_\d{8}T[0-9.]+Z)?)?\.\d+\.[a-z]\d*\.heap(?:\.gz)?$/ ? $1 : '';
}
