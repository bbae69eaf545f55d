# Pprof: profile.proto, the form of Go's pprof and of those who follow it: messages of protobuf,
# gzipped. Four values a sample, in Go's order; a location for each place with its inlined frames,
# innermost first; a mapping for each object with its build-id.
package Pprof;

my @types = (['alloc_objects', 'count'], ['alloc_space', 'bytes'], ['inuse_objects', 'count'],
    ['inuse_space', 'bytes']);

sub text {
	my ($view, $rows) = @_;
	my $file = { strings => { '' => 0 }, list => [''], functions => {}, mappings => {}, out => '' };
	my ($dump) = $view->{dumps}[-1];
	$file->{out} .= message(1, value_type($file, @$_)) for @types;
	mapping($file, $dump->{main}, $dump) if $dump->{main};	# the first is the main program
	my @location;
	for my $row (@$rows) {
		my @ids = map { varint($location[$_] //=
		    location($file, $_, $dump)) } grep { @{ $view->{frames}($_) } } @{ $row->{places} };
		$file->{out} .= message(2, message(1, join '', @ids)
		    . message(2, join '', map { varint($_) } @{ $row->{values} }));
	}
	for my $place (grep { $location[$_] } 0 .. $#location) {
		my $mapping = mapping($file, $Places::object[$place], $dump);
		my $lines = join '', map { message(4,
		    number(1, function($file, $_))
		    . number(2, $_->{line} || 0)) } @{ $view->{frames}($place) };
		$file->{out} .= message(4, number(1, $location[$place]) . number(2, $mapping)
		    . number(3, $Places::address[$place]) . $lines);
	}
	return zipped($file->{out} . head($file, $view, $dump));
}

# What stands once: time, sampling interval, words; and the strings, when all are known.
sub head {
	my ($file, $view, $dump) = @_;
	my $time = Order::time_of($dump);
	my $rate = $dump->{meta}{sample_interval} // '';
	my $out = defined $time ? number(9, int($time * 1e9)) : '';
	$out .= message(11, value_type($file, 'space', 'bytes'))
	    . number(12, $rate =~ /^\d{1,15}$/ ? $rate : $dump->{rate});
	$out .= number(13, string($file,
	    'jeprof of ' . Object::base_name($view->{program})
	    . (length $dump->pid ? ' pid ' . $dump->pid : '')));
	$out .= number(14, string($file, 'inuse_space'));
	return $out . join '', map { message(6, $_) } @{ $file->{list} };
}

sub value_type {
	my ($file, $type, $unit) = @_;
	return number(1, string($file, $type)) . number(2, string($file, $unit));
}

# Numbers of places from 1, in the order of their first use.
sub location {
	my ($file, $place, $dump) = @_;
	mapping($file, $Places::object[$place], $dump);
	return ++$file->{locations};
}

sub mapping {
	my ($file, $object, $dump) = @_;
	return 0 unless $object;
	return $file->{mappings}{ $object->{key} } //= do {
		my $id = ++$file->{last_mapping};
		my ($start, $end) = (0, 0);
		for my $range (grep { $_->{object} == $object } @{ Places::ranges($dump) }) {
			$start = $range->{start} if !$start || $range->{start} < $start;
			$end = $range->{end} if $range->{end} > $end;
		}
		$file->{out} .= message(3, number(1, $id) . number(2, $start) . number(3, $end)
		    . number(5, string($file, Talk::clean($object->{path})))
			. number(6, string($file, $object->{id})) . join '', map { number($_, 1) } 7 .. 10);
		$id;
	};
}

sub function {
	my ($file, $frame) = @_;
	my $source = $frame->{file} // '';
	my $raw = $frame->{raw} // $frame->{short};
	return $file->{functions}{"$frame->{short}\0$raw\0$source"} //= do {
		my $id = ++$file->{last_function};
		$file->{out} .= message(5, number(1, $id) . number(2, string($file, $frame->{short}))
		    . number(3, string($file, $raw)) . number(4, string($file, $source)));
		$id;
	};
}

sub string {
	my ($file, $text) = @_;
	return $file->{strings}{$text} //= do {
		my $clean = Talk::clean($text);
		$clean =~ tr/\x80-\xff/?/ unless utf8::decode(my $copy = $clean);
		push(@{ $file->{list} }, $clean) - 1;
	};
}

# ---- protobuf ----
my @small = map { chr } 0 .. 127;

sub varint {
	my ($value) = @_;
	return $small[$value] if $value >= 0 && $value < 128;
	$value = unpack 'Q', pack 'q', $value if $value < 0;
	my $out = '';
	while ($value > 127) {
		$out .= chr($value & 127 | 128);
		$value >>= 7;
	}
	return $out . chr $value;
}

# A field that is a number, not written if it is 0; one that is a message, a string or packed
# numbers.
sub number { return $_[1] ? varint($_[0] << 3) . varint($_[1]) : '' }

sub message { return varint($_[0] << 3 | 2) . varint(length $_[1]) . $_[1] }

# ---- gzip ----
sub zipped {
	my ($data) = @_;
	my $gzip = Tool::find('gzip');
	my $packed = $gzip ? Tool::filter([$gzip, '-nc'], $data) : undef;
	return $packed // stored($data);
}

# The same form without compression: blocks that are stored.
sub stored {
	my ($data) = @_;
	my $out = "\x1f\x8b\x08" . "\0" x 6 . "\xff";
	my $at = 0;
	do {
		my $block = substr $data, $at, 65535;
		$at += length $block;
		$out .= pack('CSS', $at >= length $data ? 1 : 0, length $block, length($block) ^ 0xffff)
		    . $block;
	} while ($at < length $data);
	return $out . pack 'LL', crc32($data), length($data) & 0xffffffff;
}

my @crc;

sub crc32 {
	my ($data) = @_;
	@crc = map { my $c = $_; $c = $c & 1 ? 0xedb88320 ^ $c >> 1 : $c >> 1 for 1 .. 8; $c } 0 .. 255
	    unless @crc;
	my $sum = 0xffffffff;
	$sum = $crc[($sum ^ $_) & 255] ^ $sum >> 8 for unpack 'C*', $data;
	return $sum ^ 0xffffffff;
}
