# Foreign: converts heap profiles of other writers to text in our form, which Dump then parses:
# gperftools' and Go's text, collapsed stacks, pprof's profile.proto. Names of the last two get
# invented addresses, one for each. Counts that are already estimates get the rate 0, which means
# exact. Caller: Dump. $path is the name of the profile in
# messages.
package Foreign;

# The text in our form of a profile that is another text, of lock contention too; undef if it is
# none of the known forms. Fails for a profile of contention without stacks.
sub heap_text {
	my ($path, $text) = @_;
	my $contention = Contention::heap_text($path, $text);
	return $contention if defined $contention;
	return gperftools($path, $text) if $text =~ /\Aheap profile: /;
	return collapsed($path, $text);
}

my $count = qr/\d{1,20}/;

# "heap profile: N: B [N: B] @ KIND/RATE", then lines "N: B [N: B] @ 0x.. 0x..". Comments before the
# list of mapped objects are left out, but for the names that Go tells in them. All other lines stay
# as they are: Dump knows that list, and counts what is unknown.
sub gperftools {
	my ($path, $text) = @_;
	my ($head, @lines) = split /\n/, $text, -1;
	my @out = 'heap_v2/' . rate_of($path, $head);
	my %told;
	while (@lines) {
		my $line = shift @lines;
		if ($line =~ /^\s*($count)\s*:\s*($count)\s*\[\s*($count)\s*:\s*($count)\s*\]\s*\@(.*)$/) {
			my ($live, $frames) = ("$1: $2 [$3: $4]", $5);
			push @out, join(' ', '@', split ' ', $frames), "  t*: $live";
			$told{stack}++;
		} elsif ($line =~ /^(?:MAPPED_LIBRARIES:|--- *Memory map:)/) {
			push @out, $line, @lines;
			last;
		} elsif ($line !~ /^\s*#/) {
			push @out, $line;
		} else {
			take_told(\%told, $line);
		}
	}
	return with_told(\%told, join "\n", @out);
}

# ---- names that Go tells ----
# Takes the name in a comment behind a stack, "# ADDRESS NAME+OFFSET FILE:LINE"; other comments are
# none. $told: { stack: how many stacks are before it; names: address => [names, innermost first],
# all told behind one stack, which is its number in { of } }. Recursion tells a name again: { seen }
# has "ADDRESS NAME" of each.
sub take_told {
	my ($told, $line) = @_;
	my ($address, $name) = $line =~ /^#\s+0x([0-9a-f]{1,15})\s+(\S.*?)\+0x[0-9a-f]+\s/ or return;
	my $stack = $told->{stack} // 0;
	return if ($told->{of}{$address} //= $stack) != $stack;
	push @{ $told->{names}{$address} }, $name unless $told->{seen}{"$address $name"}++;
	return;
}

# A text in our form behind the names that take_told() has taken, if any.
sub with_told {
	my ($told, $text) = @_;
	my $names = $told->{names} // return $text;
	return "--- symbol\n" . join('', map { symbol_lines(1 + hex, @{ $names->{$_} }) } sort keys %$names)
	    . "---\n--- heap\n$text";
}

# The lines of a symbol part for a place with these names: callers are looked up one before, leaves
# at it.
sub symbol_lines {
	my ($place, @names) = @_;
	my $names = Dump::joined_names(map { length $_ ? Talk::clean($_) : '?' } @names);
	return sprintf "0x%x %s\n0x%x %s\n", $place - 1, $names, $place, $names;
}

# The mean interval of the samples in bytes by the first line, as go tool pprof takes it: RATE for
# kinds heap..._v2, half of it for the kind heap; 0, exact counts, if that half is below 2 or there
# is no rate, and with a doubt for other kinds.
sub rate_of {
	my ($path, $head) = @_;
	my ($kind, $rate) = $head =~ m{\@ *([^\s/]*)(?:/($count))?};
	return 0 if !$rate;
	return $rate if $kind =~ /^heap\w*_v2$/;
	return $rate > 3 ? int($rate / 2) : 0 if $kind eq 'heap';
	Talk::doubt("$path: sampled ($kind/$rate), and not scaled: the rule of that form is not known");
	return 0;
}

# "root;...;leaf VALUE" in each line, VALUE being live bytes; undef if a line is not so, or none is
# there. Empty lines are passed over.
sub collapsed {
	my ($path, $text) = @_;
	my (@rows, $negative);
	for my $line (grep { /\S/ } split /\n/, $text) {
		my ($names, $sign, $value) = $line =~ /^(\S.*) (-?)($count)$/ or return undef;
		$negative++ if $sign;
		push @rows, [[map { [$_] } reverse split /;/, $names], [0, $sign ? 0 : $value, 0, 0]];
	}
	doubt_negative($path, $negative) if $negative;
	return @rows ? named(\@rows, '', '', 0) : undef;
}

# A profile with its names, of rows [[frames, leaf first], [objects, bytes, objects and bytes ever
# allocated]]. A frame is a list of names, innermost first, which gets an invented address above
# $base, or the address of a call. $meta are lines of metadata, $maps those of mapped objects; each
# may be ''.
sub named {
	my ($rows, $meta, $maps, $base) = @_;
	my (%address, @symbols);
	my $out = "heap_v2/0\n$meta";
	for my $row (@$rows) {
		my $behind = 0; # callers are looked up one before, leaves at it
		my @frames = map {
			my $at = $_;
			if (ref) {
				$at = $address{ join "\n", @$_ } //= do {
					my $new = $base + 16 * (@symbols + 1);
					push @symbols, symbol_lines($new, @$_);
					$new;
				};
			} else {
				$at += $behind;
			}
			$behind = 1;
			sprintf ' 0x%x', $at;
		} @{ $row->[0] };
		$out .= '@' . (join('', @frames) || ' 0x0') . sprintf "\n  t*: %s: %s [%s: %s]\n", @{ $row->[1] };
	}
	$out .= "MAPPED_LIBRARIES:\n$maps" if length $maps;
	$out .= sprintf "# end %d\n", length $out if length $meta;
	return "--- symbol\n" . join('', @symbols) . "---\n--- heap\n$out";
}

# A doubt that so many counts are below 0.
sub doubt_negative {
	my ($path, $many) = @_;
	Talk::doubt("$path: the difference of two profiles: counts below 0: $many; they are taken as 0");
}

# ---- profile.proto ----
# Type of a sample => index of its value among the four counts. The types of contention count only in
# a profile that has none of a heap.
my %of_heap = (inuse_objects => 0, inuse_space => 1, alloc_objects => 2, alloc_space => 3,
	objects => 0, space => 1);
my %of_contention = (contentions => 0, delay => 1);

# Unit of a delay => its nanoseconds.
my %nanoseconds = (map({ $_ => 1 } qw(ns nanosecond nanoseconds)),
	map({ $_ => 1000 } qw(us microsecond microseconds), "\xc2\xb5s", "\xce\xbcs"),
	map({ $_ => 1_000_000 } qw(ms millisecond milliseconds)),
	map({ $_ => 1_000_000_000 } qw(s sec second seconds)));

# The text in our form of a profile.proto, whose bytes are not compressed; undef if they are no such
# message. Fails for a profile that is none of a heap or of contention, or damaged.
sub pprof {
	my ($path, $data) = @_;
	my $top = eval { fields($data, [9]) } or return undef;
	return undef unless $top->{1} && $top->{6};
	my $text = eval { pprof_text($path, $top) };
	return $text if defined $text;
	die $@ if ref $@;
	Talk::fail(1, "$path: a damaged profile of pprof");
}

use constant INVENTED => 1 << 56; # where addresses begin that no process has

# The text in our form of the fields of a profile.proto; dies with a text if it is damaged. Negative
# counts become 0, which is a doubt. A location without functions gets the names of its address in
# the object that was mapped there; if none was, it is named by the address.
sub pprof_text {
	my ($path, $top) = @_;
	my @strings = @{ $top->{6} };
	my $word = sub { $strings[$_[0] // 0] // '' };
	my @values_of = map { fields($_, [1, 2]) } @{ $top->{1} };
	my @types = map { $word->($_->{1}[0]) } @values_of;
	my ($wanted) = grep { my $of = $_; grep { defined $of->{$_} } @types } \%of_heap, \%of_contention
	    or Talk::fail(1, "$path: not a profile of a heap: it counts " . join ', ',
		map { length ? $_ : '?' } @types);
	my @taken = grep { defined $wanted->{ $types[$_] } } 0 .. $#types;
	my %unit = map { $_ => unit_of($path, $types[$_], $word->($values_of[$_]{2}[0])) } @taken;
	my %function = map { my $f = fields($_, [1, 2]);
		(($f->{1}[0] // 0) => $word->($f->{2}[0])) } @{ $top->{5} // [] };
	my @mapped = mapped($top, $word);
	my %location;
	for my $field (map { fields($_, [1, 3]) } @{ $top->{4} // [] }) {
		my @names = map { $function{ fields($_, [1])->{1}[0] // 0 } // '?' } @{ $field->{4} // [] };
		my $address = $field->{3}[0] // 0;
		$location{ $field->{1}[0] // 0 } = @names ? \@names
		    : Places::find_range(\@mapped, $address) ? $address : [sprintf '0x%x', $address];
	}
	my (@rows, $negative);
	for my $sample (map { fields($_, [], 1, 2) } @{ $top->{2} // [] }) {
		my @counts = (0) x 4;
		my @values = @{ $sample->{2} // [] };
		die "values\n" if @values != @types; # as in two profiles behind one another
		for my $at (@taken) {
			my $value = $unit{$at} * unpack 'q', pack 'Q', $values[$at];
			$negative++ if $value < 0;
			$counts[$wanted->{ $types[$at] }] = $value > 0 ? $value : 0;
		}
		push @rows, [[map { $location{$_} // ['?'] } @{ $sample->{1} // [] }], \@counts];
	}
	doubt_negative($path, $negative) if $negative;
	my $nanos = $top->{9}[0] // 0;
	my $time = $nanos =~ /^\d+$/ && $nanos > 0 && $nanos < 2**62
	    ? '# jemalloc.dump_time=' . (Series::clock($nanos / 1e9) =~ tr/ /T/r) . "\n" : '';
	my $maps = join '', map { $_->{line} } @mapped;
	my $kind = $wanted == \%of_contention ? 'contention' : 'pprof';
	return named(\@rows, "# jemalloc.kind=$kind\n$time", $maps, INVENTED);
}

# By what to multiply the values of a type in this unit: bytes and nanoseconds are counted. A delay in
# an unknown unit is a doubt.
sub unit_of {
	my ($path, $type, $unit) = @_;
	if ($type eq 'delay') {
		return $nanoseconds{$unit} if defined $nanoseconds{$unit};
		Talk::doubt("$path: the unit '" . Talk::piece(Talk::clean($unit), 0, 60) . "' of its delays is not known; they are taken as nanoseconds");
		return 1;
	}
	return $unit =~ /^([kmgt])(?:i?b|ilo|ega|iga|era)/i ? 1024**(1 + index 'kmgt', lc $1) : 1;
}

# The mapped objects of a profile.proto that have a path, sorted by address: { start, end, line: as
# the list of mapped objects has it, behind one that gives its path a build-id }.
sub mapped {
	my ($top, $word) = @_;
	my @list;
	for my $map (map { fields($_, [2 .. 6]) } @{ $top->{3} // [] }) {
		my ($start, $end, $offset) = map { $map->{$_}[0] // 0 } 2 .. 4;
		my ($path, $id) = map { Talk::clean($word->($map->{$_}[0])) } 5, 6;
		next if $path !~ m{^/} || $start >= $end || $end > INVENTED;
		my $known = $id =~ /^[0-9a-f]{4,}$/ ? "# module 0-0 0 $id $path\n" : '';
		push @list, { start => $start, end => $end, line => sprintf "%s%x-%x r-xp %x 00:00 0 %s\n",
			$known, $start, $end, $offset, $path };
	}
	return sort { $a->{start} <=> $b->{start} } @list;
}

# { number of a field => [values] } of a message: numbers, or bytes of what has a length. Fields
# named in @$numbers are numbers, and those in @packed numbers that may be packed. Fields of fixed
# width are passed over if their number is above 15: the form has none, but a later version may. Dies
# if the message is damaged, has bytes for a number, other fields of fixed width or of another wire
# type, or more than 1000 of one number that the form does not have: then it is some other data.
sub fields {
	my ($data, $numbers, @packed) = @_;
	my %packed = map { $_ => 1 } @packed;
	my %is_number = map { $_ => 1 } @$numbers;
	my (%field, $at);
	for ($at = 0; $at < length $data;) {
		my $key = varint(\$data, \$at);
		my ($number, $wire) = ($key >> 3, $key & 7);
		if ($wire == 0) {
			push @{ $field{$number} }, varint(\$data, \$at);
		} elsif ($wire == 2 && !$is_number{$number}) {
			my $length = varint(\$data, \$at);
			die "length\n" if $length > length($data) - $at;
			my $bytes = substr $data, $at, $length;
			$at += $length;
			push @{ $field{$number} }, $packed{$number} ? varints($bytes) : $bytes;
		} elsif (($wire == 1 || $wire == 5) && $number > 15) {
			$at += $wire == 1 ? 8 : 4;
			die "length\n" if $at > length $data;
			$field{$number} //= [];
		} else {
			die "wire type\n"; # groups too
		}
		die "field\n" if !$number || $number > 15 && @{ $field{$number} } > 1000;
	}
	return \%field;
}

# The number at $$at of $$data; moves $$at behind it. Dies if it is damaged.
sub varint {
	my ($data, $at) = @_;
	my ($value, $shift) = (0, 0);
	while (1) {
		die "number\n" if $$at >= length $$data || $shift > 63;
		my $byte = ord substr $$data, $$at++, 1;
		$value |= ($byte & 127) << $shift;
		return $value if $byte < 128;
		$shift += 7;
	}
}

# All numbers of packed ones.
sub varints {
	my ($data) = @_;
	my ($at, @list) = (0);
	push @list, varint(\$data, \$at) while $at < length $data;
	return @list;
}
