# Export: forms that other programs read, written by the verbs export and symbolize or by options
# without a verb, such as --collapsed. The bytes of the stacks are whole numbers that add up to the
# total that top prints, see whole_numbers; only a profile with its names (heap, --raw) has the
# counts as they were sampled, of all stacks. A view is that of Main::view. Callers: Main, Shell;
# Box (put), Massif (told_frames), Top and Series (whole_numbers).
package Export;

use constant MOST => 9_000_000_000_000_000_000; # of a sum: readers take it for one of 64 bits with a sign

# Name of a form => [sub that makes its text of a view and rows(), undef for massif and salvage,
# which others make; what its file is called; the command that opens it; what else opens it]. %s is
# the name of the profile, FILE that of the file.
my %form = (
	pprof => [sub { Pprof::text(@_) }, '%s.pb.gz', 'go tool pprof -top FILE'],
	otlp => [sub { Otlp::text(@_) }, '%s.otlp.pb',
		'curl -H "Content-Type: application/x-protobuf" --data-binary @FILE http://COLLECTOR:4318/v1development/profiles'],
	speedscope => [\&speedscope, '%s.speedscope.json', 'speedscope FILE',
		' (or the page https://www.speedscope.app)'],
	dhat => [\&dhat, 'dhat.out.%s.json',
		'open /usr/libexec/valgrind/dh_view.html in a browser and load FILE, or load it in the Firefox Profiler'],
	collapsed => [sub { collapsed_text($_[0]) }, '%s.collapsed.txt',
		'flamegraph.pl FILE >FILE.svg'],
	massif => [undef, 'massif.out.%s', 'ms_print FILE'],
	callgrind => [sub { callgrind_text($_[0]) }, 'callgrind.out.%s', 'callgrind_annotate FILE'],
	salvage => [undef, '%s.heap', Talk::name() . ' top FILE'], # of the verb salvage
	heap => [sub { raw_text($_[0]) }, '%s.symbolized.heap', Talk::name() . ' top FILE'],
);
# What --to takes, beside "symbolized", which is heap too.
my @names = qw(pprof otlp speedscope dhat collapsed massif callgrind heap);

# The verbs export and symbolize (--to heap). Notes the options that act for other forms alone.
sub command {
	my ($option, @files) = @_;
	my ($name) = grep { $_ eq ($option->{to} eq 'symbolized' ? 'heap' : $option->{to}) } @names;
	Talk::fail(2, 'export --to ' . join('|', @names) . ' PROFILE') unless defined $name;
	Options::say_unused($option, @Options::whole) if $name eq 'heap';
	Options::say_unused($option, 'for one profile, not for a series', qw(base sum))
	    if $name eq 'massif';
	Threads::refuse_each($option);
	Main::take_program(\@files) if @files;
	my @all = Series::files(@files);
	@all = last_of($option, @all) unless $name eq 'massif';
	put($option, $name, $all[-1], $name eq 'massif' ? of_series($option, @all)
		: one($option, $name, @all));
	Missing::tell() if $name eq 'heap';
}

# The text for massif, of a series.
sub of_series {
	my ($option, @files) = @_;
	my $work = Report::gather({ %$option, takes_lines => 1 }, @files);
	Print::check_names(@{ $work->{name_rows} });
	return Massif::text($work);
}

# The files to export: all with --sum, else the last one (Order::last_of), which is noted.
sub last_of {
	my ($option, @files) = @_;
	return @files if @files < 2 || $option->{sum};
	my $last = Order::last_of(@files);
	Talk::note(scalar(@files)
		    . " profiles: the last one is exported (--sum adds them; massif takes the series): $last");
	return $last;
}

# The text of one form of profiles that are added up.
sub one {
	my ($option, $name, @files) = @_;
	my $work = Main::load({ %$option, sum => 1 }, @files);
	Contention::refuse($work->{dumps}[0]);
	my ($thread) = Main::threads($work, $option);
	my $view = Main::view($work, { %$option, takes_lines => 1 }, $thread);
	Main::check_sense($work, $view);
	Main::check_names($view);
	return $form{$name}[0]->($view, $name =~ /^(?:pprof|otlp|speedscope|dhat)$/
		? rows($view, $thread, $name eq 'otlp', $name =~ /^(?:pprof|otlp)$/, $name eq 'pprof') : undef);
}

# Writes the text of a form: to the file of -o; to stdout with "-o -", or without -o if it is no
# terminal; else to a file in this directory that is named after the profile $from.
sub put {
	my ($option, $name, $from, $text) = @_;
	return if Writing::try_stdout($option, $text);
	my $file = length $option->{o} ? $option->{o} : sprintf $form{$name}[1],
	    Input::plain_name(Object::base_name($from));
	Writing::file($file, $text);
	my $word = Talk::word($file =~ s{^-}{./-}r);
	Writing::made($option, $file, $form{$name}[2] =~ s/FILE/$word/gr, $form{$name}[3]);
}

# ---- stacks with whole numbers ----
# Rows { places: leaf first, values: [objects and bytes ever allocated, objects and bytes live] } of
# all stacks that the filters leave; with $by_thread one for each stack and thread, { thread } being
# its name; with $by_label for each label too, { label }; with $by_age for each column of ages too,
# { age } being where it begins, in seconds, or ''. Counts ever allocated have no label and no age:
# they are in the row where both are ''. $thread: of this thread alone; undef: of all.
# Sets $view->{frames} to a sub: the frames of a place that the filters leave, innermost first, as a
# list reference.
sub rows {
	my ($view, $thread, $by_thread, $by_label, $by_age) = @_;
	my $option = $view->{option};
	my $self = Reduce::entries('functions', $option);
	my (%row, @order);
	for my $half ([0, 'alloc_space'], [2, 'inuse_space']) {
		for my $stack (map { $by_age ? by_age($_) : $_ } @{ Reduce::collect($view->{dumps}, $view->{base},
					{ %$option, index => $half->[1] }, $thread, $by_thread, $by_label) }) {
			my @marks = ($stack->[5] // '', $stack->[9] // '', $stack->[10] // '');
			my $row = $row{ join "\0", @marks, $stack->[3] } //= new_row($self, \@order, $stack->[3], @marks);
			$row->{values}[$half->[0]] += $stack->[1];
			$row->{values}[$half->[0] + 1] += $stack->[2];
		}
	}
	my @rows = grep { $_->{is_kept} } @order;
	for my $at (0 .. 3) {
		my @whole = whole_numbers(map { $_->{values}[$at] } @rows);
		$rows[$_]{values}[$at] = $whole[$_] for 0 .. $#rows;
	}
	$view->{frames} = sub { return $self->{kept_frames}[$_[0]] //= [$self->frames_kept($_[0])] };
	return \@rows;
}

# A row of Reduce::stacks as one for each column of its ages that has bytes; $row->[10] is the lower
# bound of the column in seconds. The row itself if it has no ages.
sub by_age {
	my ($stack) = @_;
	my $columns = Ages::unpacked($stack->[6]) or return $stack;
	my $sum = Ages::sum($columns) || return $stack;
	my @edges = Ages::edges();
	return map { my $share = $columns->[$_] / $sum; my @part = @$stack;
		$part[1] *= $share; $part[2] *= $share; $part[10] = $edges[$_][0]; \@part } grep { $columns->[$_] } 0 .. $#$columns;
}

# Adds a row without values to @$order, and returns it.
sub new_row {
	my ($self, $order, $places, $name, $label, $age) = @_;
	my @path = $self->of_stack([undef, 0, 0, $places]);
	push @$order, { places => [unpack 'N*', $places], values => [0, 0, 0, 0], thread => $name,
		label => $label, age => $age, is_kept => $self->is_kept(\@path) };
	return $order->[-1];
}

# Numbers rounded so that their sum is the whole part of the sum of the numbers as they are, between
# -MOST and MOST: each becomes what the whole part of the running sum gains by it.
sub whole_numbers {
	my ($exact, $told) = (0, 0);
	return map {
		$exact += $_;
		my $whole = ($exact > MOST ? MOST : $exact < -MOST ? -MOST : int $exact) - $told;
		$told += $whole;
		$whole;
	} @_;
}

# Frames of a place as valgrind writes them.
sub told_frames {
	my ($place, @frames) = @_;
	my $object = $Places::object[$place];
	return map { told_frame($_, $place, $object) } @frames;
}

# One frame of a place as valgrind writes it; $object is that of the place, or undef.
sub told_frame {
	my ($frame, $place, $object) = @_;
	my $where = defined $frame->{file} && $frame->{line}
	    ? Object::base_name($frame->{file}) . ":$frame->{line}" : $object
	    ? 'in ' . Talk::clean($object->{path}) : '';
	return sprintf '0x%X: %s%s', $Places::address[$place],
	    $frame->{is_bare} ? '???' : $frame->{full}, length $where ? " ($where)" : '';
}

# ---- forms: a sub takes a view and its rows, and returns the text ----
# Profiles of live bytes, live objects and, if the dump tells them, of bytes and objects ever
# allocated; the one that --inuse_* or --alloc_* names is shown first. What shrank with --base is
# left out, which a note says. No lines: speedscope would take the calls of one function for so many
# functions.
sub speedscope {
	my ($view, $rows) = @_;
	my (@frames, %number, @samples);
	for my $row (@$rows) {
		my @path = map {
			my $frame = $_;
			$number{ join "\0", $frame->{short}, $frame->{file} // '' } //=
			    push(@frames, $frame) - 1;
		} map { @{ $view->{frames}($_) } } @{ $row->{places} };
		push @samples, '[' . join(',', reverse @path) . ']';
	}
	my @text = map { '{"name":' . Report::json($_->{short})
		    . (defined $_->{file} ? ',"file":' . Report::json($_->{file}) : '') . '}' } @frames;
	my $title = Report::json(Object::base_name($view->{program}) . ' '
		    . $view->{dumps}[-1]->time_text);
	my @kinds = (['live bytes', 'bytes', 3, 'inuse_space'], ['live objects', 'none', 2, 'inuse_objects'],
		['allocated bytes', 'bytes', 1, 'alloc_space'], ['allocated objects', 'none', 0, 'alloc_objects']);
	splice @kinds, 2 unless grep { $_->{values}[0] } @$rows;
	my $active = (grep { $kinds[$_][3] eq $view->{option}{index} } 0 .. $#kinds)[0] // 0;
	my $less = grep { $_->{values}[$kinds[$active][2]] < 0 } @$rows;
	Talk::note("speedscope shows no loss: stacks that shrank are left out, $less of them") if $less;
	my @profiles = map { speedscope_profile($rows, \@samples, @$_) } @kinds;
	return "{\"\$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"jeprof\",\"name\":$title,\"activeProfileIndex\":$active,\n"
	    . "\"shared\":{\"frames\":[\n" . join(",\n", @text) . "\n]},\n\"profiles\":[\n"
	    . join(",\n", @profiles) . "\n]}\n";
}

# One profile of the form speedscope; $at: the index of its values in the rows.
sub speedscope_profile {
	my ($rows, $samples, $name, $unit, $at) = @_;
	my @some = grep { $rows->[$_]{values}[$at] > 0 } 0 .. $#$rows;
	my $sum = 0;
	$sum += $rows->[$_]{values}[$at] for @some;
	return "{\"type\":\"sampled\",\"name\":\"$name\",\"unit\":\"$unit\",\"startValue\":0,\"endValue\":$sum,\n\"samples\":["
	    . join(",\n", map { $samples->[$_] } @some) . "],\n\"weights\":["
	    . join(',', map { $rows->[$_]{values}[$at] } @some) . ']}';
}

# The form of valgrind's dhat: one program point for each stack of frames. Its figures at the end
# and those at the maximum are both what is live in the profile.
sub dhat {
	my ($view, $rows) = @_;
	my $dump = $view->{dumps}[-1];
	my (@table, %number, %point, @order);
	for my $row (@$rows) {
		my @path = map { $number{$_} //=
			    push(@table, $_) } map { told_frames($_,
				@{ $view->{frames}($_) }) } @{ $row->{places} };
		my $key = join ',', @path;
		push @order, $key unless $point{$key};
		$point{$key}[$_] += $row->{values}[$_] for 0 .. 3;
	}
	my @points = map {
		my ($all_objects, $all, $objects, $bytes) = @{ $point{$_} };
		# the program did not count what it freed
		($all_objects, $all) = ($objects, $bytes) if $all < $bytes;
		"{\"tb\":$all,\"tbk\":$all_objects,\"tl\":0,\"mb\":$bytes,\"mbk\":$objects,\"gb\":$bytes,\"gbk\":$objects,\"eb\":$bytes,\"ebk\":$objects,\"fs\":[$_]}";
	} @order;
	my $pid = $dump->pid =~ /^(\d{1,15})$/ ? $1 : 0;
	return '{"dhatFileVersion":2,"mode":"heap","verb":"Allocated","bklt":true,"bkacc":false,"tu":"dumps","Mtu":"Mdump","tuth":1,"cmd":' . Report::json($view->{program})
	    . ",\"pid\":$pid,\"te\":1,\"tg\":1,\n\"pps\":[\n" . join(",\n", @points)
	    . "\n],\n\"ftbl\":[\"[root]\"" . join('', map { ",\n" . Report::json($_) } @table)
	    . "]}\n";
}

# Prints a view as the output mode --collapsed.
sub collapsed { print collapsed_text(@_) }

# A line for each stack of names: root;...;leaf VALUE, which is what $option->{index} counts.
sub collapsed_text {
	my ($view) = @_;
	my %line;
	my $sum = Reduce::sum($view->{stacks}, $view->{option}, on_stack => sub {
			my ($path, undef, $value) = @_;
			$line{ join ' ', reverse @$path } += $value;
	});
	my %text;
	for my $key (keys %line) {
		my @names = map { my $name = $sum->{label}[$_]; $name =~ tr/;\n/: /; $name } split / /,
		    $key;
		$text{ join ';', @names } += $line{$key};
	}
	my @order = sort keys %text;
	my @values = whole_numbers(map { $text{$_} } @order);
	return join '', map { "$order[$_] $values[$_]\n" } 0 .. $#order;
}

# Prints a view as the output mode --callgrind.
sub callgrind { print callgrind_text(@_) }

# The form of callgrind: functions with what they hold themselves, and their calls with what is held
# below. Calls of a function by itself are left out. The number of calls, which is not known, is
# written as the sum that is held below, 0 if that is negative.
sub callgrind_text {
	my ($view) = @_;
	my $sum = Reduce::sum($view->{stacks}, $view->{option}, edges => 1, by_file => 1);
	my (%file_number, %name_number, %calls);
	for my $edge (keys %{ $sum->{edges} }) {
		my ($caller, $callee) = split / /, $edge;
		push @{ $calls{$caller} }, [$callee, $sum->{edges}{$edge}] if $caller != $callee;
	}
	my $place = sub {
		my ($entry, $prefix) = @_;
		my $frame = $sum->{frame}[$entry];
		my $object = $Places::object[$sum->{place}[$entry]];
		my $file = $frame->{file} // '???';
		return pair("${prefix}ob", $object ? Talk::clean($object->{path}) : '???',
			$view->{objects} //= {})
		    . pair($prefix eq 'c' ? 'cfi' : 'fl', $file, \%file_number)
		    . pair("${prefix}fn", $sum->{label}[$entry], \%name_number);
	};
	my $text = "version: 1\ncreator: jeprof " . Main::version()
	    . "\npositions: line\nevents: Hits\n" . sprintf "summary: %d\n", $sum->{kept};
	my @order = $sum->order(0);
	my @self = whole_numbers(map { $sum->{flat}[$_] // 0 } @order);
	for my $entry (@order) {
		my $line = $sum->{frame}[$entry]{line} || 0;
		$text .= "\n" . $place->($entry, '') . sprintf "%d %d\n", $line, shift @self;
		for my $call (sort { $a->[0] <=> $b->[0] } @{ $calls{$entry} || [] }) {
			$text .= $place->($call->[0], 'c')
			    . sprintf "calls=%d %d\n%d %d\n", $call->[1] < 0 ? 0 : $call->[1],
			    $sum->{frame}[$call->[0]]{line} || 0, $line, $call->[1];
		}
	}
	return $text;
}

# "key=(N) text" the first time, "key=(N)" after it; %$numbers keeps the numbers of texts.
sub pair {
	my ($key, $text, $numbers) = @_;
	return "$key=($numbers->{$text})\n" if $numbers->{$text};
	$numbers->{$text} = 1 + keys %$numbers;
	return "$key=($numbers->{$text}) $text\n";
}

# Prints a view as the output mode --raw.
sub raw { print raw_text(@_) }

# The text of the profile of a view with its names in front (--- symbol); filters leave out nothing
# of it. Fails for several profiles.
sub raw_text {
	my ($view) = @_;
	Talk::fail(2, 'a profile with its names is made of one profile') if @{ $view->{dumps} } != 1;
	my ($dump) = @{ $view->{dumps} };
	my %name;
	for my $place (map { unpack 'N*', $_->[0] } @{ $dump->{stacks} }) {
		$name{$place} //= raw_name($place);
	}
	my $text = "--- symbol\nbinary=$view->{program}\n";
	for my $place (sort { $Places::address[$a] <=> $Places::address[$b] } keys %name) {
		$text .= sprintf "0x%016x %s\n", $Places::address[$place], $name{$place};
	}
	my $profile = $dump->{text};
	# After a bare @ other readers would add its counts to the stack before.
	$profile =~ s/^@[ \t]*$/@ 0x0/mg unless $dump->end_line;
	return "$text---\n--- heap\n" . Talk::clean_lines($profile);
}

# Names of one place; what has none inside the allocator's library is called malloc, so that readers
# who cut those frames by name cut it too.
sub raw_name {
	my ($place) = @_;
	my $frames = $Names::frames[$place];
	my $object = $Places::object[$place];
	return 'malloc' if $frames->[0]{is_bare} && $object && $object->{is_library};
	return Dump::joined_names(map { $_->{full} } @$frames);
}
