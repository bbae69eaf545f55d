# Reads a profile.proto by the wire alone, and dies where an index leads nowhere: what the tests of the agent share.
use strict;
use warnings;
no warnings 'portable';

# Fields of a message as [number, value]: a number, or the bytes of a field with a length.
sub proto_fields {
	my ($text) = @_;
	my ($at, @list) = (0);
	my $number = sub {
		my ($value, $shift) = (0, 0);
		while (1) {
			die 'a message ends in a number' if $at >= length $text || $shift > 63;
			my $byte = ord substr $text, $at++, 1;
			$value |= ($byte & 127) << $shift;
			return $value if $byte < 128;
			$shift += 7;
		}
	};
	while ($at < length $text) {
		my $key = $number->();
		die "wire type of $key" if ($key & 7) > 2;
		if (($key & 7) == 1) {
			die 'fixed64' if length($text) - $at < 8;
			push @list, [$key >> 3, unpack 'Q<', substr $text, $at, 8];
			$at += 8;
			next;
		}
		my $value = $number->();
		if ($key & 7) {
			die 'length' if $value > length($text) - $at;
			($value, $at) = (substr($text, $at, $value), $at + $value);
		}
		push @list, [$key >> 3, $value];
	}
	return @list;
}

# Packed numbers, signed.
sub proto_packed {
	my ($text) = @_;
	my @list;
	while ($text =~ /\G([\x80-\xff]*[\0-\x7f])/gs) {
		my ($value, $shift) = (0, 0);
		for my $byte (unpack 'C*', $1) {
			$value |= ($byte & 127) << $shift;
			$shift += 7;
		}
		push @list, unpack 'q', pack 'Q', $value;
	}
	return @list;
}

sub proto_part { my %part; push @{ $part{ $_->[0] } }, $_->[1] for proto_fields($_[0]); return \%part }

# The entries of a table of OTLP's dictionary; the first must be empty, and no two equal.
sub otlp_table {
	my ($what, $list) = @_;
	my %seen;
	die "no table of $what" unless $list;
	die "entry 0 of $what is not empty" if length $list->[0];
	$seen{$_}++ and die "twice in the table of $what" for @$list;
	return @$list;
}

sub otlp_pair { my ($text) = @_; my $pair = proto_part($text); my $value = proto_part($pair->{2}[0]); return ($pair->{1}[0] => $value->{1} ? $value->{1}[0] : $value->{3}[0]) }

# A request of OTLP: { resource => {KEY => VALUE}, scope, profiles => [{ type, unit, time, id, period, samples => [{ stack => [{ address, mapping, frames }], value, attributes }] }] }
# Dies where an index leads nowhere or a table is not as the standard wants it.
sub otlp_decode {
	my ($data) = @_;
	my $top = proto_part($data);
	die 'one resource and one dictionary' if @{ $top->{1} // [] } != 1 || @{ $top->{2} // [] } != 1;
	my $dictionary = proto_part($top->{2}[0]);
	my @string = otlp_table('strings', $dictionary->{5});
	utf8::decode(my $copy = $_) or die 'UTF-8' for @string;
	my %used;
	my $at = sub { my ($name, $list, $number) = @_; $number //= 0; $number < @$list or die "$name $number"; $used{$name}{$number} = 1; return $list->[$number] };
	my $word = sub { return $at->('string', \@string, $_[0][0]) };
	my @attribute = map { my $a = proto_part($_); +{ key => $word->($a->{1}), value => $a->{2} ? proto_part($a->{2}[0])->{1}[0] : '' } } otlp_table('attributes', $dictionary->{6});
	my $attributes = sub { return map { my $a = $at->('attribute', \@attribute, $_); ($a->{key} => $a->{value}) } map { proto_packed($_) } @{ $_[0] // [] } };
	my @function = map { my $f = proto_part($_); +{ name => $word->($f->{1}), system => $word->($f->{2}), file => $word->($f->{3}) } } otlp_table('functions', $dictionary->{3});
	my @mapping = map { my $m = proto_part($_); +{ start => $m->{1}[0], limit => $m->{2}[0], file => $word->($m->{4}), $attributes->($m->{5}) } } otlp_table('mappings', $dictionary->{1});
	my @location = map { my $l = proto_part($_); +{ address => $l->{2}[0] // 0, mapping => $at->('mapping', \@mapping, $l->{1}[0]),
			frames => [map { my $n = proto_part($_); +{ %{ $at->('function', \@function, $n->{1}[0]) }, line => $n->{2}[0] // 0 } } @{ $l->{3} // [] }] } } otlp_table('locations', $dictionary->{2});
	my @stack = map { my $s = proto_part($_); [map { $_ or die 'location 0 in a stack'; $at->('location', \@location, $_) } map { proto_packed($_) } @{ $s->{1} // [] }] } otlp_table('stacks', $dictionary->{7});
	otlp_table('links', $dictionary->{4});
	my $resource = proto_part($top->{1}[0]);
	my $scoped = proto_part($resource->{2}[0]);
	my @profiles;
	for my $text (@{ $scoped->{2} }) {
		my $p = proto_part($text);
		my ($type, $of_period) = map { proto_part($_->[0]) } @$p{ 1, 5 };
		my %same;
		push @profiles, { type => $word->($type->{1}), unit => $word->($type->{2}), time => $p->{3}[0], duration => $p->{4}[0] // 0, period => $p->{6}[0] // 0, period_type => join('/', map { $word->($of_period->{$_}) } 1, 2), id => $p->{7}[0],
			samples => [map { my $s = proto_part($_); $same{ join ' ', $s->{1}[0] // 0, $s->{2}[0] // '' }++ and die 'two samples of one stack and thread';
					{ stack => $at->('stack', \@stack, $s->{1}[0]), value => (proto_packed($s->{4}[0]))[0], attributes => { $attributes->($s->{2}) } } } @{ $p->{2} // [] }] };
	}
	keys %{ $used{location} // {} } == $#location or die 'a location that nothing refers to';
	return { resource => { map { otlp_pair($_) } @{ proto_part($resource->{1}[0])->{1} // [] } }, scope => proto_part($scoped->{1}[0])->{1}[0], profiles => \@profiles };
}

# { types, samples => [{ stack => [{ address, mapping, frames => [{ name, system, file, line }] }], values, labels }], mappings, ... }
sub pprof_decode {
	my ($data) = @_;
	my $top = proto_part($data);
	my @strings = @{ $top->{6} // [] };
	die 'string 0' if !@strings || length $strings[0];
	my %seen;
	$seen{$_}++ and die "string twice: $_" for @strings;
	utf8::decode(my $copy = $_) or die 'UTF-8' for @strings;
	my $word = sub { my $at = $_[0][0] // 0; $at < @strings or die "string $at"; return $strings[$at] };
	my %function = map { my $f = proto_part($_); ($f->{1}[0] => { name => $word->($f->{2}), system => $word->($f->{3}), file => $word->($f->{4}) }) } @{ $top->{5} // [] };
	my @mappings = map { my $m = proto_part($_); +{ id => $m->{1}[0], start => $m->{2}[0] // 0, limit => $m->{3}[0] // 0, file => $word->($m->{5}), build_id => $word->($m->{6}),
			has => join '', map { $m->{$_}[0] // 0 } 7 .. 10 } } @{ $top->{3} // [] };
	my %mapping = map { $_->{id} => $_ } @mappings;
	my %location;
	for my $l (map { proto_part($_) } @{ $top->{4} // [] }) {
		my $id = $l->{1}[0] or die 'location 0';
		die "location $id twice" if $location{$id};
		die "mapping of location $id" if $l->{2} && !$mapping{ $l->{2}[0] };
		my @frames = map { my $line = proto_part($_); +{ %{ $function{ $line->{1}[0] } // die "function of location $id" }, line => $line->{2}[0] // 0 } } @{ $l->{4} // [] };
		$location{$id} = { address => $l->{3}[0] // 0, mapping => $mapping{ $l->{2}[0] // 0 }, frames => \@frames };
	}
	my @samples = map {
		my $s = proto_part($_);
		my %labels = map { my $l = proto_part($_); ($word->($l->{1}) => $l->{2} ? $word->($l->{2}) : $l->{3}[0] // 0) } @{ $s->{3} // [] };
		my @values = proto_packed($s->{2}[0]);
		die 'values' if @values != @{ $top->{1} };
		+{ stack => [map { $location{$_} // die "location $_" } proto_packed($s->{1}[0] // '')], values => \@values, labels => \%labels };
	} @{ $top->{2} // [] };
	return { samples => \@samples, mappings => \@mappings, types => join(' ', map { my $t = proto_part($_); $word->($t->{1}) . '/' . $word->($t->{2}) } @{ $top->{1} }),
		time => $top->{9}[0], duration => $top->{10}[0], period => $top->{12}[0], period_type => $word->(proto_part($top->{11}[0] // '')->{1}),
		comments => [map { $word->([$_]) } @{ $top->{13} // [] }], default => $word->($top->{14}), strings => \@strings };
}

# Name of what a frame or a nameless location is.
sub pprof_leaf { my ($sample) = @_; my $l = $sample->{stack}[0] or return ''; return @{ $l->{frames} } ? $l->{frames}[0]{name} : sprintf '0x%x', $l->{address} }

# { function => sum of one value } at the leaves.
sub pprof_flat {
	my ($profile, $at) = @_;
	my %sum;
	$sum{ pprof_leaf($_) } += $_->{values}[$at] for @{ $profile->{samples} };
	return \%sum;
}

# The functions of a sample, innermost first.
sub pprof_names { my ($sample) = @_; return map { $_->{name} } map { @{ $_->{frames} } } @{ $sample->{stack} } }

# { function => sum } of all stacks that it is in.
sub pprof_cumulative {
	my ($profile, $at) = @_;
	my %sum;
	for my $sample (@{ $profile->{samples} }) {
		my %in;
		$in{$_} = 1 for pprof_names($sample);
		$sum{$_} += $sample->{values}[$at] for keys %in;
	}
	return \%sum;
}

1;
