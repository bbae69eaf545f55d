# Pprof: profile.proto, the form of Go's pprof and of those who follow it, gzipped. Four values a
# sample, in Go's order; a location for each place with its inlined frames, innermost first; a
# mapping for each object with its build-id. A place is an address of code (package Places). $file
# is what is written so far: { out: the bytes; strings: a table (Proto); functions, mappings: two
# hashes from a key to a number; last_function, last_mapping, locations: the highest numbers }. The
# subs function and mapping write it to { out }, if it is new, and return its number. Caller:
# Export.
package Pprof;

# The values of a sample, in the order of Export::rows: type and unit.
my @types = (['alloc_objects', 'count'], ['alloc_space', 'bytes'], ['inuse_objects', 'count'],
	['inuse_space', 'bytes']);

# The profile of a view and its rows (Export::rows), as bytes. The address of a place is that in the
# dump that met it first, a mapping that of the last dump.
sub text {
	my ($view, $rows) = @_;
	my $file = { strings => Proto::table(), functions => {}, mappings => {}, out => '' };
	my ($dump) = $view->{dumps}[-1];
	$file->{out} .= Proto::message(1, value_type($file, @$_)) for @types;
	mapping($file, $dump->{main}, $dump) if $dump->{main}; # the first is the main program
	my @location;
	for my $row (@$rows) {
		my @ids = map { Proto::varint($location[$_] //=
				    location($file, $_, $dump)) } grep { @{ $view->{frames}($_) } } @{ $row->{places} };
		$file->{out} .= Proto::message(2, Proto::message(1, join '', @ids)
			    . Proto::message(2, join '', map { Proto::varint($_) } @{ $row->{values} }) . labels($file, $row));
	}
	for my $place (grep { $location[$_] } 0 .. $#location) {
		my $mapping = mapping($file, $Places::object[$place], $dump);
		my $lines = join '', map { Proto::message(4,
				Proto::number(1, function($file, $_))
				    . Proto::number(2, $_->{line} || 0)) } @{ $view->{frames}($place) };
		$file->{out} .= Proto::message(4, Proto::number(1, $location[$place])
			    . Proto::number(2, $mapping) . Proto::number(3, $Places::address[$place]) . $lines);
	}
	return zipped($file->{out} . head($file, $view, $dump));
}

# The labels of a row, as bytes: "label", as the program named it, and "age", the least age in its
# column of ages, in seconds.
sub labels {
	my ($file, $row) = @_;
	my $out = '';
	$out .= Proto::message(3, Proto::strings($file->{strings}, 1, 'label', $row->{label})) if length $row->{label};
	my ($key, $unit) = map { Proto::string($file->{strings}, $_) } length $row->{age} ? ('age', 'seconds') : ();
	$out .= Proto::message(3, Proto::number(1, $key) . Proto::number(3, $row->{age})
		    . Proto::number(4, $unit)) if $key;
	return $out;
}

# The fields that a profile has once, as bytes: time, sampling interval, a comment, which of the
# values is shown first; and the table of strings, so this is called when all are known.
sub head {
	my ($file, $view, $dump) = @_;
	my $out = Proto::number(9, Order::nanoseconds($dump))
	    . Proto::message(11, value_type($file, 'space', 'bytes'))
	    . Proto::number(12, $dump->interval);
	$out .= Proto::number(13, Proto::string($file->{strings},
			'jeprof of ' . Object::base_name($view->{program})
			    . (length $dump->pid ? ' pid ' . $dump->pid : '')));
	$out .= Proto::number(14, Proto::string($file->{strings}, 'inuse_space'));
	return $out . join '', map { Proto::message(6, $_) } @{ $file->{strings}{list} };
}

# A type and its unit, as bytes.
sub value_type {
	my ($file, $type, $unit) = @_;
	return Proto::strings($file->{strings}, 1, $type, $unit);
}

# The number of a new location; they count from 1. Writes its mapping, if that is new, but not the
# location: text() writes all locations after the samples.
sub location {
	my ($file, $place, $dump) = @_;
	mapping($file, $Places::object[$place], $dump);
	return ++$file->{locations};
}

# The number of an object's mapping; 0 for undef.
sub mapping {
	my ($file, $object, $dump) = @_;
	return 0 unless $object;
	return $file->{mappings}{ $object->{key} } //= do {
		my $id = ++$file->{last_mapping};
		my ($start, $end) = Places::span($dump, $object);
		$file->{out} .= Proto::message(3, Proto::number(1, $id) . Proto::number(2, $start)
			    . Proto::number(3, $end) . Proto::strings($file->{strings}, 5, @$object{qw(path id)})
			    . join '', map { Proto::number($_, 1) } 7 .. 10);
		$id;
	};
}

# The number of the function of a frame.
sub function {
	my ($file, $frame) = @_;
	my $source = $frame->{file} // '';
	my $raw = $frame->{raw} // $frame->{short};
	return $file->{functions}{"$frame->{short}\0$raw\0$source"} //= do {
		my $id = ++$file->{last_function};
		$file->{out} .= Proto::message(5, Proto::number(1, $id)
			    . Proto::strings($file->{strings}, 2, $frame->{short}, $raw, $source));
		$id;
	};
}

# ---- gzip ----
# Bytes packed by gzip, or stored in its form if it is not there or fails.
sub zipped {
	my ($data) = @_;
	my $gzip = Tool::find('gzip');
	my $packed = $gzip ? Tool::filter([$gzip, '-nc'], $data) : undef;
	return $packed // stored($data);
}

# Bytes in the form of gzip without compression: blocks that are stored.
sub stored {
	my ($data) = @_;
	my $out = "\x1f\x8b\x08" . "\0" x 6 . "\xff";
	my $at = 0;
	do {
		my $block = substr $data, $at, 65535;
		$at += length $block;
		$out .= pack('Cvv', $at >= length $data ? 1 : 0, length $block, length($block) ^ 0xffff)
		    . $block;
	} while ($at < length $data);
	return $out . pack 'VV', crc32($data), length($data) & 0xffffffff;
}

my @crc; # its table, made at the first call

# The checksum of gzip.
sub crc32 {
	my ($data) = @_;
	@crc = map { my $c = $_; $c = $c & 1 ? 0xedb88320 ^ $c >> 1 : $c >> 1 for 1 .. 8; $c } 0 .. 255
	    unless @crc;
	my $sum = 0xffffffff;
	$sum = $crc[($sum ^ $_) & 255] ^ $sum >> 8 for unpack 'C*', $data;
	return $sum ^ 0xffffffff;
}
