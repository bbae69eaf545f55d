# Reduce: from stacks of places to sums. A place is (object, offset), see Places. The allocator's
# own frames are cut off first, but not from profiles of contention. A row is a stack as stacks()
# makes it; "packed" places are those of Places::of_text: four bytes each, leaf first. An entry is
# the number, from 0, of a label that frames get at a granularity: functions, files, lines or
# addresses; an object Reduce holds entries. A path is the entries of a stack, innermost first.
# (Labels that a program gives its memory are another thing: labels.pl.) Callers: Main (collect,
# sum, check_told), Export (collect, sum), Flame and Source (sum), Series and Live (stacks), Report
# (cut, thread_counts), Frag and Massif (cut); Top, Labels, Series, Report, Export (entries); Flame
# and Massif (trees); Fold and Source (pattern); Picture and Print use the methods. Missing and
# Export read { is_library } of an Object.
package Reduce;

# What is counted => [index of its objects in a stack of Dump, 0: objects count, 1: bytes count].
my %index_of = (inuse_objects => [1, 0], inuse_space => [1, 1], alloc_objects => [3, 0],
	alloc_space => [3, 1],
	contentions => [1, 0], total_delay => [1, 1], mean_delay => [1, 1]);

# Functions of allocators that programs call.
my $verb = qr/(?:[mc]|re)alloc|memalign|posix_memalign|aligned_alloc|p?valloc|[mrxs]d?allocx|smallocx_\w+|reallocarray|malloc_default/;
my $entry_name = qr/^(?:(?:je_|jemalloc_|__libc_|__)?(?:$verb)|_Zn[wa][jm].*|__wrap_(?:$verb))$/;

# Whether an Object (undef: no) is the allocator's library; %$libraries: paths that the dump says to
# be it. What is found is kept in the Object.
sub is_library {
	my ($object, $libraries) = @_;
	return 0 unless $object;
	return $object->{is_library} //= !$object->{is_main}
	    && ($object->title =~ /^libjemalloc[^\/]*\.so/ || $libraries->{ $object->{path} }) ? 1 : 0;
}

# Whether an Object is a library that reads stacks.
sub is_unwinder {
	my ($object) = @_;
	return $object && $object->title =~ /^lib(?:gcc_s|unwind)/ ? 1 : 0;
}

use constant { OTHER => 0, LIBRARY => 1, UNWINDER => 2, ENTRY => 3 };

# By place, one of these: in the allocator's library, in that of an unwinder, an entry point of an
# allocator elsewhere, other.
my @kind;

# Finds out the kind of a place, which must have its names.
sub kind {
	my ($place, $libraries) = @_;
	my $object = $Places::object[$place];
	my $kind = is_library($object, $libraries)
	    ? LIBRARY : ($Names::frames[$place][-1]{raw} // '') =~ $entry_name
	    ? ENTRY : is_unwinder($object) ? UNWINDER : OTHER;
	return $kind[$place] = $kind;
}

# Packed places without the frames that belong to the allocator: from the leaf on those in its
# library, with frames of an unwinder between them, then those that past_entries() finds, for static
# links and allocators that call another. At least one frame stays.
sub cut {
	my ($places, $libraries) = @_;
	my $count = length($places) >> 2;
	my ($keep, $at) = (0, 0);
	for (; $at < $count; $at++) {
		my $place = vec $places, $at, 32;
		my $kind = $kind[$place] // kind($place, $libraries);
		if ($kind == LIBRARY) {
			$keep = $at + 1;
		} elsif ($kind != UNWINDER) {
			last;
		}
	}
	$keep = past_entries($places, $keep, $libraries);
	$keep = $count - 1 if $keep >= $count;
	return $keep > 0 ? substr $places, 4 * $keep : $places;
}

# How many frames of packed places to cut, if the first $keep lie in the library: as many, or up to
# the last entry point (ENTRY) among the next frames, at most 16, that are in the object of the
# first of these.
sub past_entries {
	my ($places, $keep, $libraries) = @_;
	my @first = unpack 'N16', substr $places, 4 * $keep;
	return $keep unless grep { ($_ // ENTRY) == ENTRY } @kind[@first]; # the usual case, in one look
	my $object = $Places::object[$first[0] // return $keep] // 0;
	my $result = $keep;
	for my $place (@first) {
		last if ($Places::object[$place] // 0) != $object;
		$keep++;
		$result = $keep if ($kind[$place] // kind($place, $libraries)) == ENTRY;
	}
	return $result;
}

# Every stack of a dump, estimated, as rows [packed places, objects, bytes, packed places without
# the allocator's, samples, and where asked for: name of the thread, columns of ages, variance, not
# set, label]; $row->[0] is the first. $index: what is counted. $thread: of this thread alone;
# undef: of all. $sign is -1 for a base, whose objects and bytes are negative. With $by_thread
# divided among the threads, $row->[5] being the name of the thread ('' if it has none). $row->[6]
# are the columns of ages, as Ages::packed has them, undef where they are not told; $row->[7] is set
# by collect().
# %$want has limits, what Ages::limits returns: only memory of these ages counts; by_label, to
# divide by labels, with $row->[9] being the label ('': none); label, a pattern: rows whose label it
# does not match are left out, and those without one. The places must be numbered (Places) and named
# (Names::resolve).
sub stacks {
	my ($dump, $index, $thread, $sign, $by_thread, $want) = @_;
	my @limits = @{ $want->{limits} // [] };
	my $by_label = $want->{by_label} && $index =~ /^inuse/ && Labels::is_told($dump);
	my $at = $index_of{$index}[0];
	my $ages = Ages::is_told($dump) && $at == 1 ? $dump->{age} : undef;
	my $span = $ages ? Ages::span($dump) : undef;
	my %libraries = map { $_ => 1 } grep { defined } $dump->{meta}{library};
	my $is_whole = Contention::is_one($dump); # malloc's locks are among them
	my @out;
	my $number = -1;
	for my $stack (@{ $dump->{stacks} }) {
		$number++;
		for my $pair (defined $thread ? thread_counts($dump, $stack, $thread, $at)
			: [$stack->[$at], $stack->[$at + 1]]) {
			next unless $pair->[0] || $pair->[1];
			my ($objects, $bytes) = $dump->estimate(@$pair);
			my @whole = ($stack->[0], $sign * $objects, $sign * $bytes,
				$is_whole ? $stack->[0] : cut($stack->[0], \%libraries), $pair->[0]);
			my @rows = $by_thread ? Threads::divided($dump, $stack, $thread, $at, @whole) : \@whole;
			add_ages($ages->[$number], $span, \@limits, @rows) if $ages || @limits;
			@rows = Labels::divided($dump, $dump->{labeled}[$number], [@$stack[1, 2]], @rows) if $by_label;
			@rows = grep { length $_->[9] && $_->[9] =~ $want->{label} } @rows if $want->{label};
			push @out, grep { !@limits || $_->[4] } @rows;
		}
	}
	return \@out;
}

# Sets the columns of ages of the rows of one stack, from its text in the dump; reduces each row to
# the part whose age is between the limits, if there are any.
sub add_ages {
	my ($text, $span, $limits, @rows) = @_;
	for my $row (@rows) {
		my $columns = Ages::scaled($text, $row->[2]);
		if (@$limits) {
			my $share = $columns ? Ages::share($columns, @$limits, $span) : 0;
			$row->[$_] *= $share for 1, 2, 4;
			$columns &&= Ages::cut($columns, @$limits, $span);
		}
		$row->[6] = Ages::packed($columns);
	}
}

# [objects, bytes] that one thread has of a stack of Dump, as printed: one pair, several if the
# thread stands there twice, or none.
sub thread_counts {
	my ($dump, $stack, $thread, $at) = @_;
	if (!defined $stack->[5]) {
		return (Threads::only($dump) // '') eq $thread ? [$stack->[$at], $stack->[$at + 1]] : ();
	}
	my @pairs;
	while ($stack->[5] =~ /^  t\Q$thread\E: (\d+): (\d+) \[(\d+): (\d+)\]/mg) {
		push @pairs, $at == 1 ? [$1, $2] : [$3, $4];
	}
	return @pairs;
}

# Fails for another value of --by than those there are; if an option asks for labels or ages of what
# is not in use: profiles tell neither of that, so all of it would be shown as if asked for; and for
# --older and --younger with --base: the ages of the base are those at another time.
sub check_told {
	my ($option) = @_;
	my ($by, $index) = @$option{qw(by index)};
	Talk::fail(2, "--by takes label or function, not $by") if $by !~ /^(?:function|label|)$/;
	Talk::fail(2,
		'--older and --younger are for what one profile holds, not for a difference (--base)')
	    if length $option->{base} && grep { length $option->{$_} } qw(older younger);
	return if $index =~ /^inuse/;
	my ($name) = grep { length $option->{$_} } qw(label older younger), $by eq 'label' ? 'by' : ();
	Talk::fail(2, "--$name is for memory in use: profiles tell labels and ages of that alone, not of "
		    . ($index =~ /^alloc/ ? "what was ever allocated (--$index)" : 'contention'))
	    if defined $name;
	return;
}

# The rows of all profiles; with a $base (undef: none) one row for each stack, thread and label:
# their sum less the base. Then what is 0 is left out, and with --drop_negative what is negative.
# Ages are not those of the base; of a difference $row->[7] is the variance, in bytes squared. The
# others as for stacks().
sub collect {
	my ($dumps, $base, $option, $thread, $by_thread, $by_label) = @_;
	my $index = $option->{index};
	my $want = { by_label => $by_label };
	if ($index =~ /^inuse/) {
		$want->{limits} = [Ages::limits($option, @$dumps)];
		$want->{by_label} = 1 if Labels::check($option, @$dumps);
		$want->{label} = pattern($option->{label});
	}
	my @all = map { @{ stacks($_, $index, $thread, 1, $by_thread, $want) } } @$dumps;
	return \@all unless $base;
	my @less = @{ stacks($base, $index, $thread, -1, $by_thread, $want) };
	$_->[6] = undef for @less;
	push @all, @less;
	my (%sum, @order);
	for my $stack (@all) {
		my $key = join "\0", $stack->[5] // '', $stack->[9] // '', $stack->[0];
		if (my $same = $sum{$key}) {
			$same->[1] += $stack->[1];
			$same->[2] += $stack->[2];
			$same->[4] += $stack->[4];
			$same->[6] = Ages::packed(Ages::add_packed(Ages::unpacked($same->[6]), $stack->[6]));
			$same->[7] += Noise::variance(@$stack[1, 2, 4]);
		} else {
			push @order, $sum{$key} = [@$stack];
			$order[-1][7] = Noise::variance(@$stack[1, 2, 4]);
		}
	}
	my $which = 1 + $index_of{$index}[1];
	return [grep { $_->[$which] > 0 || $_->[$which] < 0 && !$option->{drop_negative} } @order];
}

# The labels of a place at the wanted granularity, innermost first.
sub labels {
	my ($place, $grain) = @_;
	my $frames = $Names::frames[$place];
	return map { label($place, $_, $grain) } @$frames;
}

# The label of one frame of a place.
sub label {
	my ($place, $frame, $grain) = @_;
	return $frame->{short} if $grain eq 'functions';
	my $object = $Places::object[$place];
	my $where = defined $frame->{file} ? $frame->{file} : '??';
	return defined $frame->{file} ? $frame->{file} : $object ? '[' . $object->title . ']' : '??:?'
	    if $grain eq 'files';
	my $text = "$frame->{short} $where:" . ($frame->{line} || '?');
	$text = sprintf '%016x %s', $Places::address[$place], $text if $grain eq 'addresses';
	return $text;
}

# A new object Reduce without entries: lists label, frame, place by entry, and the patterns of
# --retain, --exclude, --focus and --ignore, each undef if not given.
sub entries {
	my ($grain, $option) = @_;
	my $self = bless { grain => $grain, label => [], frame => [], place => [], by_label => {},
		of_place => [], one => [],
		map { $_ => pattern($option->{$_}) } qw(retain exclude focus ignore) }, 'Reduce';
	return $self;
}

# A compiled regular expression; undef if the text is empty or undef. Fails for a bad one.
sub pattern {
	my ($text) = @_;
	return undef unless defined $text && length $text;
	return compiled($text) // Talk::fail(2, "bad regular expression '$text'");
}

# The regular expression, undef for a bad one. What Perl thinks of it (braces, escapes) is not told.
sub compiled {
	my ($text) = @_;
	no warnings 'regexp';
	return eval { qr/$text/ };
}

# The entries of a place, innermost first, without those that --retain and --exclude take away: a
# list reference, made once. { one } has the entry of each place that has only one.
sub of_place {
	my ($self, $place) = @_;
	return $self->{of_place}[$place] if $self->{of_place}[$place];
	my @list;
	my @frames = @{ $Names::frames[$place] };
	for my $label (labels($place, $self->{grain})) {
		my $frame = shift @frames;
		next if $self->{retain} && $label !~ $self->{retain};
		next if $self->{exclude} && $label =~ $self->{exclude};
		my $key = $self->{by_file} ? join "\0", $label, $frame->{file} // '' : $label;
		push @list, $self->{by_label}{$key} //= $self->add($label, $frame, $place);
	}
	$self->{one}[$place] = $list[0] if @list == 1;
	return $self->{of_place}[$place] = \@list;
}

# The frames of a place that --retain and --exclude leave.
sub frames_kept {
	my ($self, $place) = @_;
	my @labels = labels($place, $self->{grain});
	my $frames = $Names::frames[$place];
	return @$frames[grep { (!$self->{retain} || $labels[$_] =~ $self->{retain})
			&& (!$self->{exclude} || $labels[$_] !~ $self->{exclude}) } 0 .. $#labels];
}

# Adds an entry and returns its number; $frame and $place are the first that have this label.
sub add {
	my ($self, $label, $frame, $place) = @_;
	push @{ $self->{label} }, $label;
	push @{ $self->{frame} }, $frame;
	push @{ $self->{place} }, $place;
	return $#{ $self->{label} };
}

# The path of a row, of its places without the allocator's.
sub of_stack {
	my ($self, $stack) = @_;
	my $one = $self->{one};
	my @path = @$one[unpack 'N*', $stack->[3]];
	return @path unless grep { !defined } @path;
	my $known = $self->{of_place};
	return map { @{ $known->[$_] || $self->of_place($_) } } unpack 'N*', $stack->[3];
}

# A new object Reduce with sums over rows, of bytes or objects as $option->{index} says: total
# before and kept after the filters, flat (of rows whose leaf it is) and cum (of rows that have it)
# by entry. %want: grain, another granularity; by_file, so that functions of one name in two files,
# as static ones, are two entries of one label; edges, for { edges }: "caller callee" => sum;
# on_stack, a sub that is called with (path, row, value) of each row that is kept.
sub sum {
	my ($stacks, $option, %want) = @_;
	my $self = entries($want{grain} // $option->{grain}, $option);
	$self->{by_file} = $want{by_file};
	my $which = 1 + $index_of{ $option->{index} }[1];
	my ($total, $kept) = (0, 0);
	my (@flat, @cum, %edges, @met);
	my $round = 0; # met: in which round a name was met last, so that each counts once a stack
	for my $stack (@$stacks) {
		my $value = $stack->[$which];
		$total += $value;
		my @path = $self->of_stack($stack);
		next unless $self->is_kept(\@path);
		$kept += $value;
		$flat[$path[0]] += $value;
		$round++;
		($met[$_] // 0) == $round or $met[$_] = $round, $cum[$_] += $value for @path;
		add_edges(\%edges, \@path, $value) if $want{edges};
		$want{on_stack}->(\@path, $stack, $value) if $want{on_stack};
	}
	@$self{qw(total kept flat cum edges)} = ($total, $kept, \@flat, \@cum, \%edges);
	return $self;
}

# Whether --focus and --ignore let a path through; an empty one is never let through.
sub is_kept {
	my ($self, $path) = @_;
	my ($focus, $ignore) = @$self{qw(focus ignore)};
	return 0 if $focus && !grep { $self->{focused}[$_] //= $self->hit($_, $focus) } @$path;
	return 0 if $ignore && grep { $self->{ignored}[$_] //= $self->hit($_, $ignore) } @$path;
	return scalar @$path;
}

# Edges as those of sum(), but among the entries of %$shown alone: a graph shows few of the many
# thousand edges.
sub edges_among {
	my ($self, $stacks, $option, $shown) = @_;
	my $which = 1 + $index_of{ $option->{index} }[1];
	my %edges;
	for my $stack (@$stacks) {
		my @path = $self->of_stack($stack);
		next unless $self->is_kept(\@path);
		my %seen; # an edge counts once too
		for my $at (grep { $shown->{ $path[$_] } && $shown->{ $path[$_ - 1] } } 1 .. $#path) {
			my $edge = "$path[$at] $path[$at - 1]";
			$edges{$edge} += $stack->[$which] unless $seen{$edge}++;
		}
	}
	return \%edges;
}

# Whether a pattern matches the label or the full name of an entry.
sub hit {
	my ($self, $entry, $pattern) = @_;
	return $self->{label}[$entry] =~ $pattern || ($self->{frame}[$entry]{full} // '') =~ $pattern
	    ? 1 : 0;
}

# Adds the edges of one path; one that comes twice counts once.
sub add_edges {
	my ($edges, $path, $value) = @_;
	my %seen;
	for my $at (1 .. $#$path) {
		my $edge = "$path->[$at] $path->[$at - 1]";
		$edges->{$edge} += $value unless $seen{$edge}++;
	}
}

# The entries of sum() that have a cum, sorted by cum or flat, largest first; equal ones by label.
sub order {
	my ($self, $by_cum) = @_;
	my $key = $by_cum ? $self->{cum} : $self->{flat};
	my $label = $self->{label};
	return sort { ($key->[$b] // 0) <=> ($key->[$a] // 0) || $label->[$a] cmp $label->[$b] }
	    grep { defined $self->{cum}[$_] } 0 .. $#$label;
}

# ---- stacks as a tree { sum, children by key } ----
sub new_tree { return { sum => 0, children => {} } }

# Adds to a tree the value of one more stack, of keys from the root on.
sub add_to_tree {
	my ($node, $value, @keys) = @_;
	$node->{sum} += $value;
	for my $key (@keys) {
		$node = $node->{children}{$key} //= new_tree();
		$node->{sum} += $value;
	}
}
