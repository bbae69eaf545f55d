# Report: one HTML file that shows a series offline. What it holds is data: the names, all stacks as
# one tree in preorder, and for each dump what changed in the counts of its stacks, which are
# sampled counts, as in the dump. The script of the page makes estimates of them and adds up as this
# program does, so that the sums of the page are those of top. The form of the data is that of Data
# in bin/page/model.js. Memory: a dump is read, its counts are packed, and its text is dropped
# before the next is read; a stack whose text was seen under the same mappings is not looked at
# again. $work is what gather() returns, a snapshot what take_file() adds; a record is a stack of
# the whole series, told by its index in { records } of the store. Callers: Main (command), Run
# (html_of), Leaks and Export (gather), Page (shown_first); Threads, Labels and Page make parts of
# the file. json() serves Export too.
package Report;

# STACKS_IN_FULL: the page lists so many stacks; the data have source lines for twice as many of the
# heaviest records. COUNTS_MAX: of all snapshots together, one for each stack that a snapshot has;
# where there are more, some snapshots keep their sums only. The page gets fewer, as it has only
# those that changed. PLAIN: bytes of data above which gzip packs them.
use constant { STACKS_IN_FULL => 20, COUNTS_MAX => 1_000_000, PLAIN => 150_000 };

# The verb: writes HTML to a file or to standard output. --json without -o: prints JSON in place of
# it; with -o FILE: writes the HTML, and prints JSON that tells the file; with "-o -": fails.
sub command {
	my ($option, @files) = @_;
	Main::take_program(\@files) if @files;
	@files = Series::files(@files);
	return print json_of($option, by_process(@files)) if $option->{json} && !length $option->{o};
	my $html = html_of($option, by_process(@files));
	return if Writing::try_stdout($option, $html);
	my $file = length $option->{o} ? $option->{o}
	    : Object::base_name(Series::stem($files[-1])) . '.html';
	Writing::file($file, $html);
	Writing::made($option, $file, Talk::command('open', [$file]));
}

# What the page says, for scripts, as JSON; the process with the most bytes first: of each its
# series, who holds the memory of the last profile, the suspects, and the objects that lack names.
# Each group is the files of one process.
sub json_of {
	my ($option, @groups) = @_;
	my (@name_rows, @parts);
	for my $group (@groups) {
		my $work = worked({ %$option, may_lack_thread => @groups > 1 }, @$group);
		push @name_rows, @{ $work->{name_rows} };
		my @snaps = @{ $work->{snaps} };
		my @owners = map { { function => $_->[0], bytes => $_->[1] } } @{ $work->{owners} };
		Top::round_rows(\@owners, 'bytes');
		splice @owners, $option->{top} if @owners > $option->{top};
		push @parts, [shown_first(@snaps)->{bytes}, sprintf "{\"program\":%s,\"pid\":%s,\"index\":\"%s\",\"snapshots\":[\n%s\n],\n\"owners\":[%s],\n\"suspects\":[%s],\n%s}",
			Top::json_string($work->{store}{program}),
			$snaps[-1]{dump}->pid =~ /^(\d+)$/ ? $1 : 'null', $option->{index},
			join(",\n", map { Series::point_json($_) } @snaps),
			join(',', map { sprintf '{"function":%s,"bytes":%d}', Top::json_string($_->{function}),
					    $_->{bytes} } @owners),
			join(",\n", map { Leaks::row_json($_) } @{ $work->{suspects} }),
			Missing::json(@{ $work->{missing} })];
	}
	Print::check_names(@name_rows);
	@parts = map { $_->[1] } sort { $b->[0] <=> $a->[0] } @parts;
	return "{\"processes\":[\n" . join(",\n", @parts) . "\n]}\n";
}

# Files as groups. If several processes ran at the same time, a group for each; if they ran one
# after the other, as a program that was started anew, or if a dump has no time, one group of all.
sub by_process {
	my @files = @_;
	my (%files, %first, %last, @pids);
	for my $file (@files) {
		my $head = Dump::head($file);
		my %stamp = Order::stamp($head);
		my ($pid, $time) = @stamp{qw(process time)};
		push @pids, $pid unless $files{$pid};
		push @{ $files{$pid} }, $file;
		return \@files unless defined $time;
		$first{$pid} = $time if $time < ($first{$pid} // $time + 1);
		$last{$pid} = $time if $time > ($last{$pid} // $time - 1);
	}
	@pids = sort { $first{$a} <=> $first{$b} || $a cmp $b } @pids;
	return map { $files{$_} } @pids
	    if grep { $first{ $pids[$_] } <= $last{ $pids[$_ - 1] } } 1 .. $#pids;
	Talk::note('profiles of several processes (pid ' . join(', ', map { s/ .*//r } @pids)
		    . ') are shown as one series') if @pids > 1;
	return \@files;
}

# The page of these groups of files, one for each process, as text.
sub html_of {
	my ($option, @groups) = @_;
	my @parts = sort { $b->{shown} <=> $a->{shown} }
	    map { part({ %$option, may_lack_thread => @groups > 1 }, @$_) } @groups;
	$parts[0]{said} = $option->{said};
	say_nameless($option, @parts);
	return Page::html(@parts);
}

# Says once, of all processes together, which objects have no names and how much lies there.
sub say_nameless {
	my ($option, @parts) = @_;
	Print::check_names(map { @{ $_->{name_rows} } } @parts);
	Fold->joined(map { $_->{nameless} } @parts)->say_missing($option);
}

# The snapshot that a page shows first: the last, or the largest if the last has less than a tenth
# of its bytes.
sub shown_first {
	my @snaps = @_;
	my ($peak) = sort { $b->{bytes} <=> $a->{bytes} } @snaps;
	return $snaps[-1]{bytes} * 10 < $peak->{bytes} ? $peak : $snaps[-1];
}

# gather() of the files of one group, with { suspects }: none if they are of several processes. With
# fewer snapshots than Leaks::LEAST it is judged by the ages in the last one, if that has ages; then
# { aged } is set.
sub worked {
	my ($option, @files) = @_;
	my $work = gather($option, @files);
	my @snaps = @{ $work->{snaps} };
	my %runs = map { $_->{run} => 1 } @snaps;
	$work->{suspects} = keys %runs > 1 ? [] : Leaks::suspects($work, \@snaps);
	if (@snaps < Leaks::LEAST() && keys %runs == 1 && $snaps[-1]{ages}) {
		$work->{aged} = { snaps => \@snaps };
		Leaks::judge_ages($work, $work->{aged});
		$work->{suspects} = $work->{aged}{suspects};
	}
	return $work;
}

# What the page needs of one process: { words: what Page says of it, data and their form; shown:
# bytes of the snapshot that it shows first, and size, the same as text; program, pid; name_rows,
# nameless for doubts }.
sub part {
	my ($option, @files) = @_;
	my $work = worked($option, @files);
	my @snaps = @{ $work->{snaps} };
	my ($form, $data) = data($work);
	my $shown = shown_first(@snaps)->{bytes};
	return { shown => $shown, name_rows => $work->{name_rows}, nameless => $work->{fold}{nameless},
		program => Object::base_name($work->{store}{program}), pid => $snaps[-1]{dump}->pid,
		size => Print::human($shown, $option),
		words => Page::summary($work), form => $form, data => $data };
}

# All that is known of some files: { store, snaps in the order of time, option, self: an object
# Reduce, which has all entries } and what find_paths() and find_owners() add: { entries: those that
# are used, order, name } and { fold, held, owners, missing, name_rows }. The store is { records,
# snaps, program; and to find records again by_text: mapping_key() => { text of a stack => record },
# by_places: packed places => record }. Fails if no file has the thread of --thread, unless
# { may_lack_thread } of the option: another process may have it. Fails for --thread=*.
sub gather {
	my ($option, @files) = @_;
	Threads::refuse_each($option);
	my $store = { records => [], by_text => {}, by_places => {}, snaps => [] };
	take_file($store, $option, $_) for @files;
	my @snaps = @{ $store->{snaps} };
	Main::threads({ dumps => [map { $_->{dump} } @snaps] }, $option) unless $option->{may_lack_thread};
	Threads::drop_only(@snaps);
	@snaps = Order::sorted(@snaps);
	Order::say_anew(map { $_->{dump} } @snaps);
	Names::resolve(Main::wants_lines($option));
	my $work = { store => $store, snaps => \@snaps, option => $option,
		self => Reduce::entries($option->{grain}, $option) };
	find_paths($work);
	count($_, $store->{records}) for @snaps;
	find_owners($work);
	return $work;
}

# Reads a file and adds a snapshot to $store->{snaps}: { dump, number, counts, parts, label_parts,
# threads, pins }, the time as Order says it, and { ages, life, is_accum } if ages are told; count()
# adds { bytes, objects }, estimated. number: the index in the order of the files. counts: (record,
# objects, bytes) packed, sampled; parts: the same by thread (Threads::parts); label_parts: by
# label; threads: see Threads::held; weight: its bytes before any filter, if ages are told. Three
# hashes by record: pins, [bytes of free memory that it pins, their standard error, sampled objects]
# (see Frag); ages, the text of its columns in the dump; life, [the text of the columns of freed
# memory, the factor that makes estimates of its bytes]. The large parts of the Dump are dropped.
sub take_file {
	my ($store, $option, $file) = @_;
	my $dump = Contention::refuse(Dump::read_file($file));
	my $number = @{ $store->{snaps} };
	my $known = $store->{by_text}{ mapping_key($dump) } //= {};
	my $at = $option->{index} =~ /alloc/ ? 3 : 1;
	my ($counts, $parts, $labels, $weight, %sums, @seen, %ages, %life, %pins) = ('', '', '', 0);
	my $is_labeled = Labels::is_told($dump) && $at == 1 && !length $option->{thread};
	Frag::take($dump) if $dump->{frag_lines};
	my $is_aged = Ages::is_told($dump) && $at == 1;
	my $place = -1;
	for my $stack (@{ $dump->{stacks} }) {
		$place++;
		my $number_of;
		for my $pair (length $option->{thread}
			? Reduce::thread_counts($dump, $stack, $option->{thread}, $at)
			: [$stack->[$at], $stack->[$at + 1]]) {
			next unless $pair->[0] || $pair->[1];
			my $record = $known->{ $stack->[0] };
			$record = $known->{ $stack->[0] } = record($store, $dump, $stack->[0], \@seen)
			    if !defined $record || $seen[$record]; # twice in one dump: two records
			$seen[$record] = 1;
			$counts .= pack 'LFF', $record, @$pair;
			$weight += ($dump->estimate(@$pair))[1] if $is_aged;
			$number_of = $record;
		}
		if ($is_aged && defined $number_of) {
			$ages{$number_of} = $dump->{age}[$place] if defined $dump->{age}[$place];
			$life{$number_of} = [$dump->{life}[$place], ($dump->estimate(@$stack[3, 4]))[1] / $stack->[4]]
			    if defined $dump->{life}[$place] && $stack->[4];
		}
		$labels .= Labels::parts($store, $dump, $number_of, $dump->{labeled}[$place])
		    if $is_labeled && defined $number_of;
		$pins{$number_of} = [@{ $dump->{frag}[$place] }, $stack->[1]] if defined $number_of && $dump->{frag}[$place];
		my @found = Threads::of_stack($dump, $stack, $at);
		Threads::add(\%sums, $dump, @found);
		$parts .= Threads::parts($store, $number_of, $stack, $at, @found)
		    if defined $number_of && !length $option->{thread};
	}
	push @{ $store->{snaps} }, { dump => $dump, number => $number, counts => $counts, pins => \%pins,
		Order::stamp($dump),
		parts => $parts, label_parts => $labels, threads => Threads::held($dump, \%sums),
		$is_aged ? (ages => \%ages, life => \%life, is_accum => is_accum($dump), weight => $weight) : () };
	keep_ages($store);
	Places::ranges($dump); # finds the main program
	$store->{program} //= $dump->{program} // $Object::program
	    // ($dump->{main} ? $dump->{main}{path} : $dump->{meta}{exe} // '?');
	Elsewhere::whose_of($dump) if $dump->{heap}; # for Page
	delete @$dump{qw(text stacks age life labeled frag frag_lines maps modules ranges numbers symbols)};
}

# Whether the dump also counts what was freed (prof_accum).
sub is_accum {
	my ($dump) = @_;
	return scalar grep { $_->[3] } @{ $dump->{stacks} };
}

# Drops ages, to save memory: once more than N + 2 snapshots have some, N being the processes of
# these, only the newest of each process, by which Leaks judges it, and the largest, which may be
# shown first, keep theirs.
sub keep_ages {
	my ($store) = @_;
	my @aged = grep { $_->{ages} } @{ $store->{snaps} };
	my (%newest, %is_kept);
	for my $snap (@aged) {
		my $newest = \$newest{ $snap->{process} };
		$$newest = $snap unless $$newest && is_older($snap, $$newest);
	}
	return if @aged <= 2 + keys %newest;
	my ($largest) = sort { $b->{weight} <=> $a->{weight} || $a->{number} <=> $b->{number} } @aged;
	$is_kept{ $_->{number} } = 1 for $largest, values %newest;
	delete @$_{qw(ages life)} for grep { !$is_kept{ $_->{number} } } @aged;
}

# Whether a snapshot is older than another one of its process: by the monotonic clock, else by the
# wall clock.
sub is_older {
	my ($one, $other) = @_;
	my $key = defined $one->{mono} && defined $other->{mono} ? 'mono' : 'time';
	return ($one->{$key} // 0) < ($other->{$key} // 0) ? 1 : 0;
}

# A text of the mappings of a dump. Where two dumps have equal texts, an address is the same place
# in both.
sub mapping_key {
	my ($dump) = @_;
	return "file $dump->{file}" if $dump->{symbols};
	return join "\n", (map { join ' ', @$_{qw(start end bias id path)} } @{ $dump->{modules} }),
	    map { join ' ', @$_{ qw(start end offset
			    path) } } grep { $_->{perms} =~ /x/ } @{ $dump->{maps} };
}

# The number of the record { places, libraries } of a stack, $text: the first record with the same
# places that no stack of this dump has yet (@$seen is true at the numbers of those that one has),
# else a new one. libraries: the allocator's, for Reduce::cut. find_paths() adds { path, key, at },
# find_owners() { folded }, Threads::parts { thread }. take_file() asks it only if the record that
# it knows for this text is taken by another stack of the dump, or there is none.
sub record {
	my ($store, $dump, $text, $seen) = @_;
	my $places = Places::of_text($dump, $text);
	my $key = $places;
	$key .= '+' while defined $store->{by_places}{$key} && $seen->[$store->{by_places}{$key}];
	return $store->{by_places}{$key} //= do {
		push @{ $store->{records} },
		    { places => $places, libraries =>
			    { map { $_ => 1 } grep { defined } $dump->{meta}{library} } };
		$#{ $store->{records} };
	};
}

# Sets path of each record: its entries (see Reduce), leaf first, undef if the filters do not leave
# it. Of $work it sets order, the numbers of the records that are left, in the order of the tree (at
# of a record is its index there); entries, those that are used, sorted by name; name, by entry its
# number among them, from 1. key of a record: the names of its path from the root on, packed.
sub find_paths {
	my ($work) = @_;
	my ($store, $self) = @$work{qw(store self)};
	my $records = $store->{records};
	for my $record (@$records) {
		my @path = $self->of_stack([undef, 0, 0,
				Reduce::cut($record->{places}, $record->{libraries})]);
		$record->{path} = $self->is_kept(\@path) ? \@path : undef;
	}
	my %used = map { $_ => 1 } map { @{ $_->{path} // [] } } @$records;
	my $label = $self->{label};
	my @entries = sort { $label->[$a] cmp $label->[$b] } keys %used;
	my @name;
	@name[@entries] = 1 .. @entries;
	$_->{key} = pack 'N*',
	    map { $name[$_] } reverse @{ $_->{path} } for grep { $_->{path} } @$records;
	my @order = sort { $records->[$a]{key} cmp $records->[$b]{key}
		    || $a <=> $b } grep { $records->[$_]{path} } 0 .. $#$records;
	$records->[$order[$_]]{at} = $_ for 0 .. $#order;
	@$work{qw(entries order name)} = (\@entries, \@order, \@name);
}

# Sets { bytes, objects } of a snapshot: its sums over the records that are kept.
sub count {
	my ($snap, $records) = @_;
	my ($bytes, $objects) = (0, 0);
	my @values = unpack '(LFF)*', $snap->{counts};
	for (my $at = 0; $at < @values; $at += 3) {
		next unless $records->[$values[$at]]{path};
		my @pair = $snap->{dump}->estimate(@values[$at + 1, $at + 2]);
		$objects += $pair[0];
		$bytes += $pair[1];
	}
	@$snap{qw(bytes objects)} = ($bytes, $objects);
}

# Sets folded of each record that the filters leave: how many frames at its leaf stand before its
# owner (see Fold). And of $work, for the last dump, as top says it, estimates: held, bytes by
# record, also of those that the filters take away; owners, [name, bytes], the most first; missing,
# what Missing::of_rows returns; name_rows, [bytes, whether it has no name] of each owner.
sub find_owners {
	my ($work) = @_;
	my ($store, $self) = @$work{qw(store self)};
	my $fold = $work->{fold} = Fold->new($self, $work->{option});
	my @values = unpack '(LFF)*', $work->{snaps}[-1]{counts};
	my (%held, %self);
	while (my ($record, @pair) = splice @values, 0, 3) {
		$held{$record} = ($work->{snaps}[-1]{dump}->estimate(@pair))[1];
	}
	for my $number (@{ $work->{order} }) {
		my $record = $store->{records}[$number];
		my @path = $fold->path($held{$number} // 0, @{ $record->{path} });
		$record->{folded} = @{ $record->{path} } - @path;
		$self{ $path[0] } += $held{$number} if $held{$number};
	}
	my $label = $self->{label};
	$work->{held} = \%held;
	$work->{owners} = [map { [$label->[$_], $self{$_}] } sort { $self{$b} <=> $self{$a}
			    || $label->[$a] cmp $label->[$b] } keys %self];
	$work->{missing} = [Missing::of_rows(
			map { [$self{$_}, $self->{place}[$_], $self->{frame}[$_]{is_bare}] } keys %self)];
	$work->{name_rows} = [map { [$self{$_}, $self->{frame}[$_]{is_bare}] } keys %self];
}

# ---- the data of the page, as JSON ----
# (form, text) of the data: JSON, or JSON packed by gzip, in base64.
sub data {
	my ($work) = @_;
	my ($tree, $nodes) = tree($work);
	my $dump = $work->{snaps}[-1]{dump};
	my $modules = modules($work);
	my $whole = whole(@{ $work->{snaps} });
	my $threads = Threads::data($work, $whole) . Labels::data($work, $whole);
	my $text = "{\"index\":\"$work->{option}{index}\",\n"
	    . '"names":["all",' . join(',',
		map { json($work->{self}{label}[$_]) } @{ $work->{entries} })
	    . "],\n$modules,\n$tree,\n$threads"
	    . '"lines":{' . join(',', lines($work, $nodes)) . "},\n"
	    . '"suspects":[' . join(',', suspects($work, $nodes)) . "],\n"
	    . "\"snaps\":[\n" . join(",\n", snaps($work, $whole)) . "\n]}";
	my $gzip = length $text > PLAIN ? Tool::find('gzip') : undef;
	my $packed = $gzip ? Tool::filter([$gzip, '-6nc'], $text) : undef;
	return defined $packed ? ('gz', base64($packed)) : ('json', $text);
}

# A text as JSON that may stand in HTML.
sub json {
	my ($text) = @_;
	$text = Top::json_string(Talk::clean($text));
	$text =~ s/([<>&])/sprintf '\\u%04x', ord $1/ge;
	$text =~ s/\xe2\x80([\xa8\xa9])/$1 eq "\xa8" ? '\\u2028' : '\\u2029'/ge;
	return $text;
}

# Bytes in base64.
sub base64 {
	my $text = pack 'u', $_[0];
	$text =~ s/^.//gm;
	$text =~ tr{` -_\n}{AA-Za-z0-9+/}d;
	my $rest = -length($_[0]) % 3;
	substr($text, -$rest) = '=' x $rest if $rest;
	return $text;
}

# The members modules and module_of of the data: the object that each name was first met in.
sub modules {
	my ($work) = @_;
	my (@titles, %number);
	my @of_name = map {
		my $object = $Places::object[$work->{self}{place}[$_]];
		my $title = $object ? $object->title : '?';
		$number{$title} //= push(@titles, $title) - 1;
	} @{ $work->{entries} };
	return '"modules":[' . join(',', map { json($_) } @titles) . '],"module_of":['
	    . join(',', 0, @of_name) . ']';
}

# (members of the data, the node of each record in order). The paths of all records are one tree in
# preorder; the root is node 0. Members: "up", of each node its number minus that of its parent;
# "step", of each node but the root the index of its name in the list of names that nodes before it
# have below the name of its parent (lists are short, so the numbers are small), for a new name the
# length that the list had before; "fresh", the names that are new in a list, in the order of nodes;
# "records", of each record the number of its node minus that of the record before, and its folded
# frames. Sets { up } of $work. Can be called once: it takes { key } away from the records.
sub tree {
	my ($work) = @_;
	my (@name, @up, @step, @fresh, @next, @records, @nodes) = (0);
	@up = (0);
	my (@path, @before);
	my $last = 0;
	for my $number (@{ $work->{order} }) {
		my $record = $work->{store}{records}[$number];
		my @names = unpack 'N*', delete $record->{key};
		my $same = 0;
		$same++ while $same < @names && $same < @before && $names[$same] == $before[$same];
		$#path = $same - 1;
		for my $depth ($same .. $#names) {
			my $parent = $depth ? $path[$depth - 1] : 0;
			my $next = $next[$name[$parent]] //= {};
			push @up, @name - $parent;
			my $step = $next->{ $names[$depth] } // keys %$next;
			push @fresh, $names[$depth] if $step == keys %$next;
			push @step, $next->{ $names[$depth] } = $step;
			push @name, $names[$depth];
			push @path, $#name;
		}
		@before = @names;
		push @nodes, $path[-1];
		push @records, $path[-1] - $last, $record->{folded};
		$last = $path[-1];
	}
	$work->{up} = \@up;
	local $" = ',';
	return ("\"step\":[@step],\n\"fresh\":[@fresh],\n\"up\":[@up],\n\"records\":[@records]",
		\@nodes);
}

# Source lines of the heaviest stacks of the last dump: NODE:["file:line" of each frame, leaf
# first]; only of stacks with one entry for each place, so not of those that a filter took frames
# from. $nodes as tree() returns them.
sub lines {
	my ($work, $nodes) = @_;
	my $records = $work->{store}{records};
	my $held = $work->{held};
	my @heavy = sort { $held->{$b} <=> $held->{$a}
		    || $a <=> $b } grep { $held->{$_} && $records->[$_]{path} } keys %$held;
	splice @heavy, 2 * STACKS_IN_FULL if @heavy > 2 * STACKS_IN_FULL;
	my %places = map { $_ => [unpack 'N*',
			Reduce::cut(@{ $records->[$_] }{qw(places libraries)})] } @heavy;
	my %wanted = map { $_ => 1 } map { @$_ } values %places;
	my $line = Names::lines_of(sort { $a <=> $b } keys %wanted);
	my (%done, @out);
	for my $number (@heavy) {
		my @places = @{ $places{$number} };
		my $node = $nodes->[$records->[$number]{at}];
		next if $done{$node}++ || @places != @{ $records->[$number]{path} }
		    || !grep { $line->{$_} } @places;
		push @out, "\"$node\":[" . join(',',
			map { $line->{$_} ? json(join ':', @{ $line->{$_} }) : '""' } @places) . ']';
	}
	return @out;
}

# What keeps growing: [NODE of the owner, grown, rate, its standard error, steps up, steps, live],
# in bytes, the rate and its error in bytes a minute, null where there are no times.
sub suspects {
	my ($work, $nodes) = @_;
	my $number = sub { defined $_[0] ? sprintf '%d', $_[0] : 'null' };
	return map {
		my $record = $work->{store}{records}[$_->{record}];
		sprintf '[%d,%d,%s,%s,%d,%d,%d]', owner_of($nodes->[$record->{at}], $record, $work),
		    $_->{grown}, $number->($_->{rate}), $number->($_->{rate_error}), @$_{qw(up steps live)}
	} @{ $work->{suspects} };
}

# The node of a record's owner: as many above its leaf as frames were folded.
sub owner_of {
	my ($node, $record, $work) = @_;
	$node -= $work->{up}[$node] for 1 .. $record->{folded};
	return $node;
}

# Each snapshot as an object of JSON. Those whose indices are the keys of %$whole have their stacks:
# how the counts of records differ from those of the snapshot before that has its stacks. The others
# have their sums only.
sub snaps {
	my ($work, $whole) = @_;
	my @snaps = @{ $work->{snaps} };
	my $records = $work->{store}{records};
	my @before = (0) x (2 * @{ $work->{order} });
	my @out;
	for my $number (0 .. $#snaps) {
		my $snap = $snaps[$number];
		push @out, head_of_snap($snap);
		next unless $whole->{$number};
		my @now = (0) x @before;
		my @values = unpack '(LFF)*', $snap->{counts};
		for (my $at = 0; $at < @values; $at += 3) {
			my $to = $records->[$values[$at]]{at} // next;
			@now[2 * $to, 2 * $to + 1] = @values[$at + 1, $at + 2];
		}
		$out[-1] .= ',"ages":[' . ages($snap, $work) . ']' if $snap->{ages};
		$out[-1] .= ',"cells":[' . cells(\@before, \@now) . ']'
		    . (defined $snap->{told} ? ",\"parts\":[$snap->{told}]" : '')
		    . (defined $snap->{labels_told} ? ",\"label_parts\":[$snap->{labels_told}]" : '');
		@before = @now;
	}
	return map { "{$_}" } @out;
}

# For each record with ages: GAP,COUNT, and COUNT times COLUMN,SHARE. GAP is its { at } minus that
# of the record before, COUNT the number of columns that have bytes, SHARE in thousandths of the
# bytes of the record.
sub ages {
	my ($snap, $work) = @_;
	my ($last, @out) = (0);
	for my $number (@{ $work->{order} }) {
		my $text = $snap->{ages}{$number} // next;
		my $columns = Ages::columns($text);
		my $sum = Ages::sum($columns) || next;
		my $at = $work->{store}{records}[$number]{at};
		my @some = grep { $columns->[$_] } 0 .. $#$columns;
		push @out, $at - $last, scalar @some,
		    map { ($_, int(1000 * $columns->[$_] / $sum + 0.5)) } @some;
		$last = $at;
	}
	return join ',', @out;
}

# For each record that changed GAP,OBJECTS,BYTES: GAP is its { at } minus that of the changed record
# before, OBJECTS and BYTES are by how much they rose. Both lists have objects and bytes of each
# record in turn: (objects, bytes, objects, ...), by { at }. In Threads the same of pairs.
sub cells {
	my ($before, $now) = @_;
	my ($last, @out) = (0);
	for (my $at = 0; $at < @$now; $at += 2) {
		next if $now->[$at] == $before->[$at] && $now->[$at + 1] == $before->[$at + 1];
		push @out, $at / 2 - $last, map { sprintf '%.0f', $_ } $now->[$at] - $before->[$at],
		    $now->[$at + 1] - $before->[$at + 1];
		$last = $at / 2;
	}
	return join ',', @out;
}

# The snapshots whose stacks the page has, as { index => 1 }: all if they have COUNTS_MAX counts
# at most or are three at most, else about as many as have that together, evenly chosen, with the
# first, the last and the largest. Of the others the page has the sums.
sub whole {
	my @snaps = @_;
	my $size = 0;
	$size += length($_->{counts}) / length pack 'LFF', 0, 0, 0 for @snaps;
	return { map { $_ => 1 } 0 .. $#snaps } if $size <= COUNTS_MAX || @snaps <= 3;
	my ($peak) = sort { $snaps[$b]{bytes} <=> $snaps[$a]{bytes} || $a <=> $b } 0 .. $#snaps;
	my $count = int(@snaps * COUNTS_MAX / $size);
	$count = 3 if $count < 3;
	my %whole = map { int($_ * $#snaps / ($count - 1) + 0.5) => 1 } 0 .. $count - 1;
	$whole{$peak} = 1;
	Talk::note(sprintf 'the stacks of %d of %d profiles are in the report, of the others the sums',
		scalar keys %whole, scalar @snaps);
	return \%whole;
}

# The members of a snapshot that are no stacks.
sub head_of_snap {
	my ($snap) = @_;
	my $dump = $snap->{dump};
	my (undef, $kind) = Order::marks($dump);
	my %meta = %{ $dump->{meta} };
	my $span = $snap->{ages} ? Ages::span($dump) : undef; # by which the page judges ages
	$meta{profiled_ms} = sprintf '%.0f', 1000 * $span if defined $span;
	my @meta = map { [$_, $meta{$_}] } grep { !/^(?:unwinder_depths|pid|kind|seq)$/
		    && defined $meta{$_} } sort keys %meta;
	return sprintf '"file":%s,"pid":%s,"time":%s,"clock":%s,"kind":%s,"rate":%s,"live":[%d,%d],"meta":{%s},"threads":[%s]',
	    json(Object::base_name($dump->{file})), json($dump->pid),
	    defined $snap->{at} ? sprintf('%.3f', $snap->{at}) : 'null',
	    json(defined $snap->{time} ? Series::clock($snap->{time}) : ''), json($kind), $dump->{rate},
	    @$snap{qw(bytes objects)},
	    join(',', map { json($_->[0]) . ':' . json($_->[1]) } @meta),
	    join(',', map { sprintf '[%s,%s,%d,%d]', $_->[0], json($_->[1]),
			    @$_[2, 3] } @{ $snap->{threads} });
}
