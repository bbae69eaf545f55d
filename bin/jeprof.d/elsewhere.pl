# Elsewhere: a sentence about memory of a process that does not come from malloc. Interpreters and
# virtual machines have heaps of their own; the profile of such a process shows next to nothing, and
# the sentence says why. scripts/join-page makes the rule (TIMES, MORE) and the list, heaps(), of
# bin/page/heaps.txt, and writes them in front of this text. jeprofd has both too, and says the same
# where the bytes of mapped files are known (bin/agent/elsewhere.c). Callers: Frag, Live, Main for
# top, Patient for doctor, Report and Page for the report.
package Elsewhere;

# A figure of the metadata of a Dump; undef if it is not there or no number of at most 18 digits.
sub number {
	my ($dump, $key) = @_;
	my $value = $dump->{meta}{$key} // '';
	return $value =~ /^\d{1,18}$/ ? $value : undef;
}

# What is in memory, in bytes: { rss: by the kernel's count; heap: what the allocator has of it, by
# its own count; files: mapped files and shared memory, by the kernel's count, 0 if not known;
# other: the rest }; undef if the Dump does not say heap, or rss is missing or 0. other is negative
# where pages that the allocator counts as resident were never touched or are swapped out.
sub beside {
	my ($dump) = @_;
	my ($rss, $shared) = map { number($dump, $_) } qw(rss rss_shared);
	my $heap = $dump->{heap} ? $dump->{heap}{resident} : number($dump, 'resident');
	return undef unless $rss && defined $heap;
	return { rss => $rss, files => $shared // 0, other => $rss - $heap - ($shared // 0), heap => $heap };
}

# Whether the file of a program has a section: Go's runtime marks its programs by one.
sub has_section {
	my ($path, $name) = @_;
	my $elf = -f $path ? Elf::open_file($path) : undef;
	return $elf && $elf->section($name) ? 1 : 0;
}

# Whose heap the rest of the memory may be, in words, by the path of the program (undef: not known)
# and those of its objects: the first of the list that fits; '' if none does. A heap of the list has
# either patterns or a section, never both.
sub whose {
	my ($program, @objects) = @_;
	my @paths = map { s/ \(deleted\)$//r } $program // '', @objects;
	my ($name, @names) = map { Object::base_name($_) } @paths;
	for my $heap (heaps()) {
		my ($program_like, $object_like, $section) = @$heap{qw(program object section)};
		return "$heap->{heap}; $heap->{see}" if length $section ? has_section($paths[0], $section)
		    : $name =~ /$program_like/ || grep { /$object_like/ } @names;
	}
	return '';
}

# How much of $rss is not the allocator's, and whose it may be, as a sentence; '' unless $rss is far
# more than $heap (TIMES, MORE). $rss, $heap: as in beside(); $shared: bytes of mapped files and
# shared memory, undef if not known; $whose: what whose() returns.
sub text {
	my ($rss, $heap, $shared, $whose, $option) = @_;
	return '' unless $rss > TIMES() * $heap && $rss - $heap > MORE();
	my ($all, $own, $files) = map { Print::human($_, $option) } $rss, $heap, $shared // 0;
	my $other = $rss - $heap - ($shared // 0);
	my $beside = !defined $shared ? 'is not malloc\'s: code, data, stacks, mapped files, other mappings'
	    : "is not malloc's: $files of code and mapped files, " . Print::human($other > 0 ? $other : 0, $option)
	    . ' of data, stacks and other mappings';
	return "$all in memory, $own of it through malloc; the rest $beside" . (length $whose ? " ($whose)" : '');
}

# Whose heap the rest of the memory of a Dump may be, as whose() says it, found once: Report drops the
# objects of a Dump before Page asks.
sub whose_of {
	my ($dump) = @_;
	return $dump->{whose} //= whose($dump->{meta}{exe}, map { $_->{path} } @{ $dump->{maps} },
		@{ $dump->{modules} });
}

# The sentence of text() about the process of a Dump, not of one of lock contention; '' if none.
sub sentence {
	my ($dump, $option) = @_;
	return '' if Contention::is_one($dump);
	my $beside = beside($dump) // return '';
	my $shared = number($dump, 'rss_shared');
	return text(@$beside{qw(rss heap)}, $shared, whose_of($dump), $option);
}
