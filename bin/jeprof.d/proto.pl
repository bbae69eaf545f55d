# Proto: the wire form of protobuf, and tables whose entries are told by number. Each sub returns
# bytes, if nothing else is said; a field is given by its number. Callers: Pprof, Otlp.
package Proto;

# The numbers below 128 as bytes.
my @small = map { chr } 0 .. 127;

# A number, which may be negative.
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

# A field that is a number; '' if that is 0, which readers take for what is not there.
sub number { return $_[1] ? varint($_[0] << 3) . varint($_[1]) : '' }

# A field that is a message, a string or packed numbers, of its bytes.
sub message { return varint($_[0] << 3 | 2) . varint(length $_[1]) . $_[1] }

# ---- tables ----
# A table of distinct entries; entry 0 is empty.
sub table { return { number => { '' => 0 }, list => [''] } }

# The number of an entry.
sub entry {
	my ($table, $bytes) = @_;
	return $table->{number}{$bytes} //= push(@{ $table->{list} }, $bytes) - 1;
}

# The number of a text in a table of strings, 0 for ''. Control characters become "?" (Talk::clean),
# and so does what is not ASCII in a text that is no UTF-8, as protobuf wants UTF-8.
sub string {
	my ($table, $text) = @_;
	return $table->{by_text}{$text} //= do {
		my $clean = Talk::clean($text);
		$clean =~ tr/\x80-\xff/?/ unless Talk::is_utf8($clean);
		entry($table, $clean);
	};
}

# Consecutive fields, from $first on, that are numbers of texts.
sub strings {
	my ($table, $first, @texts) = @_;
	return join '', map { number($first + $_, string($table, $texts[$_])) } 0 .. $#texts;
}
