# Frag: where the resident bytes of a process are, by one profile, and which functions pin the free
# ones: an object pins the free places of its slab, whose pages cannot be given back while it lives.
# The sum of the parts is what the allocator has in memory, by its count. This sum and what is not
# the allocator's (Elsewhere; may be negative) make RSS. How many bytes a stack pins is an estimate
# that the library makes (src/prof/sites/prof_frag.h); jeprof does not scale it. The library tells
# the standard error of the estimate too; that of older versions, which do not, is 0. $self is {
# program, dump, option, beside: see Elsewhere, rows, sum: bytes pinned by all rows, fold }; Page
# makes its own, without program, sum and fold. Callers: Main (command), Report (take), Page (lines,
# sentence).
package Frag;

# The parts of the resident memory and what they are, for people; in the order in which they are
# printed. A slab is a run of pages for objects of one size class; a bin, in an arena, has the slabs
# of a class. What a thread frees goes to the cache of the thread (cached), from there to the stock
# of the bin (stock), from there to its slab (free).
my @parts = (
	[live => 'objects that the program holds'],
	[free => 'free places in slabs, which the other objects of the slabs pin'],
	[cached => 'free objects in thread caches'],
	[stock => 'free places that bins keep ready for thread caches'],
	[samples => 'free places in the slabs of samples'],
	[slack => 'ends of large objects'],
	[hot => 'freed large extents, kept whole for the next request'],
	[dirty => 'unused pages, until they decay'],
	[hpa => 'unused pages of huge slabs (hpa)'],
	[metadata => 'the allocator\'s own data, the profiler\'s among them'],
);

# What else a line "# frag_heap" has. All are bytes, but arenas is a count. huge: bytes of the parts
# in huge pieces; kept: unused pages that stay so that huge pieces stay whole; spread: free places
# in other arenas than the one that has most. The line may have dirty_decay_ms and muzzy_decay_ms
# too: the one that is missing never decays.
my @others = qw(resident muzzy retained huge kept spread arenas tcache_max thp_min);

# "NAME:NUMBER ..." as a hash.
sub numbers {
	my ($text) = @_;
	return { $text =~ /(?<!\S)([a-z_]+):(\d{1,20})(?!\S)/g };
}

# Reads the lines that Dump has kept: sets { heap: bytes by the names of @parts and other figures,
# frag: [bytes pinned, their standard error] by stack, charged: bytes pinned by all stacks, classes:
# a list of { size, slabs, used, stock } in bytes: of an object, of all slabs of the class, of what
# is in use or in thread caches, of what is in stock } of the Dump. A damaged line is passed over,
# and sets nothing.
sub take {
	my ($dump) = @_;
	return if $dump->{heap};
	take_line($dump, $_) for @{ $dump->{frag_lines} // [] };
	$dump->{charged} = 0;
	$dump->{charged} += $_->[0] for grep { $_ } @{ $dump->{frag} // [] };
}

# Reads one line of those that take() reads.
sub take_line {
	my ($dump, $line) = @_;
	if ($line =~ /^# frag (\d{1,9}) (\d{1,20})(?: (\d{1,20}))?$/) {
		my ($place, @charge) = ($dump->place($1), $2, $3 // 0);
		$dump->{frag}[$place] = \@charge if defined $place;
	} elsif ($line =~ /^# frag_heap (.*)$/) {
		my $heap = numbers($1);
		$dump->{heap} = $heap unless grep { !defined $heap->{$_} } @others, map { $_->[0] } @parts;
	} elsif ($line =~ /^# frag_class (\d{1,10}) (.*)$/) {
		my $class = { size => $1, %{ numbers($2) } };
		push @{ $dump->{classes} }, $class unless grep { !defined $class->{$_} } qw(slabs used stock);
	}
}

# The verb "frag", for one profile: of several the last argument, of none the last of the newest
# series. Fails with status 1 if it has no line "# frag_heap". With --json the advice is in it too.
sub command {
	my ($option, @files) = @_;
	Main::take_program(\@files);
	@files = Main::newest() unless @files;
	if (@files > 1) {
		Talk::note(scalar(@files) . " profiles: the last one is shown: $files[-1]");
		@files = $files[-1];
	}
	my $work = Main::load($option, @files);
	my ($dump) = @{ $work->{dumps} };
	take($dump);
	Talk::fail(1, "$dump->{file}: does not say where the memory is: " . why_not($dump)) unless $dump->{heap};
	Names::resolve(Main::wants_lines($option));
	my $self = { program => $work->{program}, dump => $dump, option => $option, beside => Elsewhere::beside($dump) };
	$self->{rows} = rows($self, $dump, $option);
	Print::check_names(map { [$_->{pinned}, $_->{is_bare}] } @{ $self->{rows} });
	return print_json($self) if $option->{json};
	print_parts($self);
	if ($option->{advice}) { print_advice($self) } else { print_classes($self); print_rows($self) }
	$self->{fold}->say_missing($option, $self->{sum}) if $self->{fold};
	Talk::next_is('frag', '--advice', Options::kept($option), [$dump->{file}]) unless $option->{advice} || @Talk::doubted;
}

# Why a Dump has no line "# frag_heap", in words. Kinds outside, box and core were read from the
# tables of the profiler, in a process or a file; these tell nothing of slabs.
sub why_not {
	my ($dump) = @_;
	return 'it was written by a version without these lines, or by another allocator'
	    unless ($dump->{meta}{kind} // '') =~ /^(?:outside|box|core)/;
	return 'it was read from the tables of the profiler, which tell nothing of slabs';
}

# Rows { name; pinned: bytes, margin, variance: of pinned; live: bytes, 0 if it holds none; callers,
# is_bare } by the owner, which is the function that holds the memory (see Fold), in the order of
# Top::build, which gets rows as Reduce::stacks makes them: once with the bytes pinned, once with
# the live ones. An owner that pins nothing has no row. Sets { fold, sum } of $self.
sub rows {
	my ($self, $dump, $option) = @_;
	my %libraries = map { $_ => 1 } grep { defined } $dump->{meta}{library};
	my (@pinned, @live);
	for my $number (0 .. $#{ $dump->{stacks} }) {
		my $stack = $dump->{stacks}[$number];
		my ($objects, $bytes) = $dump->estimate(@$stack[1, 2]);
		my $cut = Reduce::cut($stack->[0], \%libraries);
		my $charge = $dump->{frag}[$number];
		push @pinned, [$stack->[0], $objects, $charge->[0], $cut, $stack->[1], undef, undef, $charge->[1]**2] if $charge;
		push @live, [$stack->[0], $objects, $bytes, $cut, $stack->[1], undef, undef, 0] if $bytes;
	}
	my ($table, $others) = map { Top::build({ dumps => [$dump], stacks => $_ }, $option) } \@pinned, \@live;
	my %live = map { $_->{name} => $_->{self} } @{ $others->{rows} };
	@$self{qw(fold sum)} = @$table{qw(fold bytes)};
	return [map { { name => $_->{name}, pinned => $_->{self}, margin => $_->{margin}, variance => $_->{variance}, live => $live{ $_->{name} } // 0,
				callers => $_->{callers}, is_bare => $_->{is_bare} } } @{ $table->{rows} }];
}

# ---- the lines ----
# Two lists of [bytes, text]: of the parts, which sum to what is resident by the allocator's count,
# and of what is beside them in RSS: empty if RSS is not told; its last bytes may be negative.
sub lines {
	my ($self) = @_;
	my ($heap, $beside) = ($self->{dump}{heap}, $self->{beside});
	my @lines = map { [$heap->{ $_->[0] } // 0, $_->[1]] } @parts;
	return (\@lines, []) unless $beside;
	my @more = ([$beside->{files}, 'not the allocator\'s: code, mapped files, shared memory']);
	push @more, $beside->{other} >= 0
	    ? [$beside->{other}, 'not the allocator\'s: data, stacks, other allocators\' mappings']
	    : [$beside->{other}, 'counted above and not in memory: never touched, or swapped out'];
	return (\@lines, \@more);
}

# Prints the sentence, and the lines of both lists that are not 0, with their sums.
sub print_parts {
	my ($self) = @_;
	my ($dump, $option) = @$self{qw(dump option)};
	my $heap = $dump->{heap};
	my $text = Object::base_name($self->{program});
	$text .= ' pid ' . $dump->pid if length $dump->pid;
	$text .= ' at ' . $dump->time_text if length $dump->time_text;
	print "$text: ", sentence($self), "\n";
	my ($lines, $more) = lines($self);
	my $print = sub { printf "%9s  %s\n", Print::human($_[0], $option), $_[1] };
	for my $line (grep { $_->[0] } @$lines) { $print->(@$line) }
	$print->($heap->{resident}, '= resident, by the allocator\'s count');
	return unless $self->{beside};
	for my $line (grep { $_->[0] } @$more) { $print->(@$line) }
	$print->($self->{beside}{rss}, '= resident, by the kernel\'s count (RSS)');
}

# A sentence: what most of the memory is that the program does not use: free places in slabs, unused
# pages, thread caches or the allocator's data; "little is unused" if none of these is a tenth of
# what is resident. Those in stock are free places here. It names who pins the free places only if
# the stacks explain 30 % of them. The sentence of Elsewhere in its place if most memory is not
# malloc's.
sub sentence {
	my ($self) = @_;
	my ($dump, $option, $beside) = @$self{qw(dump option beside)};
	my $heap = $dump->{heap};
	my $human = sub { Print::human($_[0], $option) };
	my $whole = $beside ? $beside->{rss} : $heap->{resident};
	my $elsewhere = Elsewhere::sentence($dump, $option);
	return $elsewhere if length $elsewhere;
	my $head = $human->($whole) . ' in memory, ' . $human->($heap->{live}) . ' of it in use by the program; ';
	my $free = $heap->{free} + $heap->{stock};
	my $unused = $heap->{dirty} + $heap->{hot} + $heap->{hpa};
	my $most = (sort { $b <=> $a } $free, $unused, $heap->{cached}, $heap->{metadata})[0];
	return $head . 'little is unused' if $most < 0.1 * $heap->{resident};
	return $head . $human->($unused) . ' is unused pages that decay has not given back yet' if $most == $unused;
	return $head . $human->($heap->{cached}) . ' lies in thread caches' if $most == $heap->{cached};
	return $head . $human->($heap->{metadata}) . ' is the allocator\'s own data' if $most == $heap->{metadata};
	$head .= $human->($free) . ' is free in slabs';
	return "$head, pinned by objects that no sample stands for" unless is_explained($dump, $free);
	my ($row) = @{ $self->{rows} };
	return $head unless $row; # the filters leave none
	return "$head: objects of $row->{name} pin " . $human->($row->{pinned} < $free ? $row->{pinned} : $free) . ' of it';
}

# Whether the stacks of a Dump, also those that filters leave out, pin enough of the $free bytes to
# tell who does.
sub is_explained {
	my ($dump, $free) = @_;
	return $dump->{charged} >= 0.3 * $free;
}

# The free bytes in the slabs of a size class, without those in stock or thread caches; at least 0.
sub waste {
	my ($class) = @_;
	my $waste = $class->{slabs} - $class->{used} - $class->{stock};
	return $waste > 0 ? $waste : 0;
}

# Prints the size classes with the most waste, at most eight; not those with less than a hundredth
# of what is resident. "full" is the share of the slabs that is in use or in thread caches.
sub print_classes {
	my ($self) = @_;
	my ($dump, $option) = @$self{qw(dump option)};
	my @classes = sort { waste($b) <=> waste($a) || $a->{size} <=> $b->{size} }
	    grep { waste($_) > 0 && 100 * waste($_) >= $dump->{heap}{resident} } @{ $dump->{classes} // [] };
	my $count = @classes;
	splice @classes, 8 if $count > 8;
	return unless @classes;
	printf "%9s %9s %9s %6s\n", 'size', 'slabs', 'free', 'full';
	for my $class (@classes) {
		printf "%9d %9s %9s %6s\n", $class->{size}, map({ Print::human($_, $option) } $class->{slabs}, waste($class)),
		    sprintf '%.0f%%', 100 * $class->{used} / $class->{slabs};
	}
	printf "%9s more sizes\n", $count - @classes if $count > @classes;
}

# Prints the rows, at most -n; if there are none, says so if there are free places. The shares are
# of what all stacks pin, also those that filters leave out.
sub print_rows {
	my ($self) = @_;
	my ($dump, $option) = @$self{qw(dump option)};
	my @rows = @{ $self->{rows} };
	return print $dump->{charged} ? "no stack that is shown pins free places\n"
	    : $dump->{heap}{free} ? "no live sample lies in a slab with free places\n" : '' unless @rows;
	my $rest = @rows > $option->{top} ? @rows - $option->{top} : 0;
	splice @rows, $option->{top} if $rest;
	my $width = (grep { $_->{margin} } @rows) ? 8 : 0;
	printf "%9s%s %6s %9s  %s\n", 'pins', $width ? Noise::column($width, 'margin') : '', '%', 'holds', 'function, callers';
	for my $row (@rows) {
		my $margin = $row->{margin} ? Noise::text($row->{margin}, $option) : '';
		printf "%9s%s %6s %9s  %s\n", Print::human($row->{pinned}, $option), Noise::column($width, $margin),
		    Print::percent($row->{pinned}, $dump->{charged}),
		    Print::human($row->{live}, $option), join '  ', grep { length }
		    $row->{name}, Top::callers_text({ %$row, self => $row->{pinned} }, $option->{callers});
	}
	print "$rest more (-n ", scalar @{ $self->{rows} }, ")\n" if $rest;
}

# ---- advice ----
# Who pins free places, as a clause for the advice about slabs. It says that the first row pins
# most of the $free bytes, if that pins at least half of them; else how many bytes it pins. '' if
# there is no row or the stacks explain too little.
sub pinner {
	my ($self, $free) = @_;
	my ($row) = @{ $self->{rows} };
	return '' unless $row && is_explained($self->{dump}, $free);
	return "; most are pinned by $row->{name}" if 2 * $row->{pinned} >= $free;
	return "; $row->{name} pins " . Print::human($row->{pinned}, $self->{option}) . ' of all that is free';
}

# { bytes, what, how } of each thing that would give memory back, the most bytes first; none without
# bytes. At most these bytes would come back.
sub advice {
	my ($self) = @_;
	my $heap = $self->{dump}{heap};
	my $decays = sub { defined $heap->{ $_[0] } ? $heap->{ $_[0] } . ' ms' : 'never' };
	my @advice = (
		[$heap->{dirty} + $heap->{hot} + $heap->{hpa} - $heap->{kept}, 'purge', 'unused pages: now by mallctl("arena.4096.purge"), '
			    . 'or by themselves sooner with a smaller dirty_decay_ms (' . $decays->('dirty_decay_ms') . ') and background_thread:true'],
		[$heap->{kept}, 'thp_min', "unused pages that keep huge pages whole: a greater thp_min ($heap->{thp_min}), or thp:never"],
		[$heap->{muzzy}, 'muzzy_decay_ms', 'pages that the system may take when it needs them: muzzy_decay_ms:0 (' . $decays->('muzzy_decay_ms') . ') gives them at once'],
		[$heap->{cached}, 'tcache_max', "thread caches: a smaller tcache_max ($heap->{tcache_max}), or mallctl(\"thread.tcache.flush\") in threads that are idle"],
		[$heap->{stock}, 'stock', 'places kept for thread caches: returned by themselves within a second of no use'],
		[$heap->{spread}, 'narenas', "free places in other arenas than the fullest: at most this with narenas:1 ($heap->{arenas} now)"],
		[$heap->{free} - $heap->{spread}, 'slabs', 'free places in slabs: only the end of the objects that pin them'
			    . pinner($self, $heap->{free}) . ', or a copy of these to new ones'],
		[$heap->{samples}, 'samples', 'slabs of samples: fewer samples (a greater lg_prof_sample)'],
	);
	return sort { $b->{bytes} <=> $a->{bytes} } map { { bytes => $_->[0], what => $_->[1], how => $_->[2] } }
	    grep { $_->[0] > 0 } @advice;
}

# Prints the advice.
sub print_advice {
	my ($self) = @_;
	print "what would give memory back, at most:\n";
	printf "%9s  %-14s  %s\n", Print::human($_->{bytes}, $self->{option}), $_->{what}, $_->{how} for advice($self);
}

# ---- JSON ----
# Prints all as JSON; of the rows at most -n. rss, files and other are null if RSS is not told.
sub print_json {
	my ($self) = @_;
	my ($dump, $beside) = @$self{qw(dump beside)};
	my @rows = @{ $self->{rows} };
	Top::round_rows(\@rows, qw(pinned live));
	splice @rows, $self->{option}{top} if @rows > $self->{option}{top};
	my $heap = $dump->{heap};
	printf "{\"dump\":%s,\"program\":%s,\"pid\":%s,\"sentence\":%s,\n\"parts\":{%s},\n",
	    map({ Top::json_string($_) } $dump->{file}, $self->{program}), $dump->pid =~ /^(\d+)$/ ? $1 : 'null',
	    Top::json_string(sentence($self)), join ',', map { "\"$_\":" . ($heap->{$_} // 0) } map({ $_->[0] } @parts);
	printf "\"resident\":%d,\"muzzy\":%d,\"retained\":%d,\"huge\":%d,\"arenas\":%d,\n", @$heap{qw(resident muzzy retained huge arenas)};
	printf "\"rss\":%s,\"files\":%s,\"other\":%s,\"pinned\":%d,\n", ($beside ? @$beside{qw(rss files other)} : ('null') x 3), $self->{sum};
	printf "\"classes\":[%s],\n", join ',', map { sprintf '{"size":%d,"slabs":%d,"used":%d,"stock":%d,"free":%d}',
		    @$_{qw(size slabs used stock)}, waste($_) } @{ $dump->{classes} // [] };
	printf "\"advice\":[%s],\n", join ',', map { sprintf '{"bytes":%d,"what":%s,"how":%s}', $_->{bytes},
		    map { Top::json_string($_) } @$_{qw(what how)} } advice($self);
	printf "\"rows\":[\n%s\n]}\n", join ",\n", map { sprintf '{"function":%s,"pinned":%d,"error":%d,"live":%d,"callers":[%s]}',
		    Top::json_string($_->{name}), $_->{pinned}, sqrt $_->{variance}, $_->{live}, join ',', map { sprintf '{"function":%s,"pinned":%d}',
			    Top::json_string($_->{name}), $_->{bytes} } @{ $_->{callers} } } @rows;
}
