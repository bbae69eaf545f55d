# Otlp: an ExportProfilesServiceRequest of OpenTelemetry (opentelemetry-proto 1.11), as jeprofd
# pushes it: one resource, the process; a Profile for each sample type, those of alloc only if a
# dump has such counts; and the dictionary with what they refer to by number. Entry 0 of each of its
# tables is empty and stands for none, the others are distinct; a Profile has no two samples with
# the same stack, thread and label, and none of value 0. A location whose name is not known has its
# address and mapping alone: a receiver may find the name by the build-id. $file is { view, dump:
# the last one, a table of Proto for each key of %table, by_place: number of the location of a place
# }. The subs return bytes, or the number of an entry where they end in Proto::entry. Caller:
# Export.
package Otlp;

# Table of the dictionary => number of its field.
my %table = (mapping => 1, location => 2, function => 3, link => 4, string => 5, attribute => 6,
	stack => 7);

# Type, unit, index in the values of a row.
my @types = (['inuse_space', 'bytes', 3], ['inuse_objects', 'count', 2],
	['alloc_space', 'bytes', 1], ['alloc_objects', 'count', 0]);

# The request for a view and its rows (Export::rows).
sub text {
	my ($view, $rows) = @_;
	my $file = { view => $view, dump => $view->{dumps}[-1], by_place => [],
		map { $_ => Proto::table() } keys %table };
	my $samples = samples($file, $rows);
	my $is_counted = grep { $_->[3] } map { @{ $_->{stacks} } } @{ $view->{dumps} };
	my $scope = Proto::message(1, Proto::message(1, 'jeprof')
		    . Proto::message(2, Main::version()));
	my @profiles = map { Proto::message(2, profile($file, $samples, @$_)) }
	    grep { $is_counted || $_->[2] > 1 } @types;
	my $resource = Proto::message(1, resource($file)) . Proto::message(2, join '', $scope, @profiles);
	return Proto::message(1, $resource) . Proto::message(2, dictionary($file));
}

# The dictionary, made last: all that is written before it puts entries into its tables.
sub dictionary {
	my ($file) = @_;
	my $out = '';
	for my $name (sort { $table{$a} <=> $table{$b} } keys %table) {
		$out .= Proto::message($table{$name}, $_) for @{ $file->{$name}{list} };
	}
	return $out;
}

# ---- samples ----
# Samples of rows, each as [bytes of its stack and attributes, values as in Export::rows], in the
# order of their first row.
sub samples {
	my ($file, $rows) = @_;
	my (%sample, @order);
	for my $row (@$rows) {
		my $stack = Proto::entry($file->{stack}, stack($file, $row));
		my @attributes = map { length($_->[1] // '') ? attribute($file, @$_) : () }
		    ['thread.name', $row->{thread}], ['label', $row->{label}];
		my $key = Proto::number(1, $stack)
		    . (@attributes ? Proto::message(2, join '', map { Proto::varint($_) } @attributes) : '');
		push @order, $sample{$key} = [$key, [0, 0, 0, 0]] unless $sample{$key};
		$sample{$key}[1][$_] += $row->{values}[$_] for 0 .. 3;
	}
	return \@order;
}

# A stack: its locations, leaf first, without places of which the filters leave no frame.
sub stack {
	my ($file, $row) = @_;
	my $packed = join '', map { Proto::varint(
			$file->{by_place}[$_] //= Proto::entry($file->{location}, location($file, $_))) }
	    grep { @{ $file->{view}{frames}($_) } } @{ $row->{places} };
	return Proto::message(1, $packed);
}

# The location of a place. Its address is in the dump that met the place first; 0: none.
sub location {
	my ($file, $place) = @_;
	my $object = $Places::object[$place];
	my @frames = grep { !$_->{is_bare} || !$Places::address[$place] } @{ $file->{view}{frames}($place) };
	return Proto::number(1, mapping($file, $object)) . Proto::number(2, $Places::address[$place])
	    . join '', map { Proto::message(3,
			Proto::number(1, function($file, $_)) . Proto::number(2, $_->{line} || 0)) } @frames;
}

# The number of an object's mapping, with its addresses in the last dump; 0 for undef.
sub mapping {
	my ($file, $object) = @_;
	return 0 unless $object;
	my ($start, $end) = Places::span($file->{dump}, $object);
	my $out = Proto::number(1, $start) . Proto::number(2, $end)
	    . Proto::strings($file->{string}, 4, $object->{path});
	$out .= Proto::message(5, Proto::varint(attribute($file,
				'process.executable.build_id.gnu', $object->{id}))) if length $object->{id};
	return Proto::entry($file->{mapping}, $out);
}

# The number of a frame's function.
sub function {
	my ($file, $frame) = @_;
	my @texts = ($frame->{short}, $frame->{raw} // $frame->{short}, $frame->{file} // '');
	return Proto::entry($file->{function}, Proto::strings($file->{string}, 1, @texts));
}

# The number of an attribute with a text as its value.
sub attribute {
	my ($file, $key, $text) = @_;
	my $number = Proto::string($file->{string}, $text);
	return Proto::entry($file->{attribute}, Proto::strings($file->{string}, 1, $key)
		    . Proto::message(2, Proto::message(1, $file->{string}{list}[$number])));
}

# ---- profiles ----
# The profile of one sample type; $at: the index of its values. Its time is 0 if that is not known.
sub profile {
	my ($file, $samples, $type, $unit, $at) = @_;
	my $dump = $file->{dump};
	my $out = Proto::message(1, value_type($file, $type, $unit));
	$out .= Proto::message(2, $_->[0] . Proto::message(4, Proto::varint($_->[1][$at])))
	    for grep { $_->[1][$at] } @$samples;
	my $time = Order::nanoseconds($dump);
	$out .= Proto::varint(3 << 3 | 1) . pack 'Q<', $time;
	$out .= Proto::message(5, value_type($file, 'space', 'bytes'))
	    . Proto::number(6, $dump->interval);
	return $out . Proto::message(7, id($time, $dump->pid . " $out"));
}

# The id of a profile, 16 bytes that other profiles hardly have too: the time in nanoseconds, and a
# checksum of all that the profile says.
sub id {
	my ($time, $text) = @_;
	$text .= "\0" x (-length($text) % 8);
	return pack 'Q<Q<', $time, unpack '%64Q<*', $text;
}

# A type and its unit.
sub value_type {
	my ($file, $type, $unit) = @_;
	return Proto::strings($file->{string}, 1, $type, $unit);
}

# ---- resource ----
# The attributes of the process that are known; a number as such, a text cleaned as all strings are.
sub resource {
	my ($file) = @_;
	my ($program, $pid) = ($file->{view}{program}, $file->{dump}->pid);
	my $name = Object::base_name($program);
	my @pairs = (['service.name', $name], ['process.executable.name', $name],
		$program =~ m{^/} ? ['process.executable.path', $program] : ());
	my $out = $pid =~ /^\d{1,15}$/ ? pair('process.pid', Proto::varint(3 << 3) . Proto::varint($pid))
	    : '';
	for my $pair (@pairs) {
		my $text = $file->{string}{list}[Proto::string($file->{string}, $pair->[1])];
		$out .= pair($pair->[0], Proto::message(1, $text));
	}
	return $out;
}

# An attribute of the resource; $value: bytes of its value.
sub pair {
	my ($key, $value) = @_;
	return Proto::message(1, Proto::message(1, $key) . Proto::message(2, $value));
}
