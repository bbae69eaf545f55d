# Fold: who owns an allocation. From the leaf outwards, functions that only hand memory on (wrappers
# of malloc, containers of the standard library) and functions without a name, of an object whose
# file is here, are passed over; what they hold is shown at the first caller that is neither. The
# functions of the C library that start a program or a thread (Wrappers::starts) are the owner only
# if no frame was passed over before them for want of a name; else the first of these nameless
# frames is the owner. A path is the entries of a stack (see Reduce), leaf first. Callers: Top (also
# for frag and live), Labels, Series for diff, Report (also for leaks); Missing asks package_of().
package Fold;

# What an entry is: it can own; it hands memory on; it has no name; it starts a program or thread.
use constant { NAMED => 0, WRAPPER => 1, NAMELESS => 2, START => 3 };

# A Fold of these entries (an object Reduce), with the patterns of --wrapper too.
sub new {
	my ($class, $entries, $option) = @_;
	return bless { entries => $entries, kind => [], nameless => {}, start => Wrappers::starts(),
		patterns => [grep { defined } Wrappers::pattern(),
			map { Reduce::pattern($_) } @{ $option->{wrapper} }] },
	    $class;
}

# What an entry is: one of the constants. Found out once.
sub kind {
	my ($self, $entry) = @_;
	return $self->{kind}[$entry] //= $self->judge($entry);
}

# Finds out what an entry is.
sub judge {
	my ($self, $entry) = @_;
	my $entries = $self->{entries};
	my $frame = $entries->{frame}[$entry];
	if ($frame->{is_bare}) {
		my $object = $Places::object[$entries->{place}[$entry]];
		return $object && $object->is_file && $object->symbol_elf
		    ? NAMELESS : matches($self->{patterns}, $frame->{short});
	}
	return $frame->{short} =~ $self->{start} ? START : matches($self->{patterns}, $frame->{short});
}

# WRAPPER if one of the patterns matches the name, else NAMED.
sub matches {
	my ($patterns, $name) = @_;
	for my $pattern (@$patterns) {
		return WRAPPER if $name =~ $pattern;
	}
	return NAMED;
}

# The part of a path from its owner on; $bytes as for owner(), with the same note.
sub path {
	my ($self, $bytes, @path) = @_;
	my $owner = $self->owner($bytes, \@path);
	return @path[$owner .. $#path];
}

# The index of its owner in a path, not an empty one; if nothing can own, the first nameless frame,
# else the last of the path. If nameless frames were passed over and there is an owner, $bytes, what
# the stack holds, are noted for the object of the first one; so this is called once for a stack.
sub owner {
	my ($self, $bytes, $path) = @_;
	my ($owner, $nameless);
	for my $at (0 .. $#$path) {
		my $kind = $self->{kind}[$path->[$at]] // $self->kind($path->[$at]);
		$owner = $at if $kind == NAMED || $kind == START && !defined $nameless;
		last if defined $owner || $kind == START;
		$nameless //= $at if $kind == NAMELESS;
	}
	$self->note($path->[$nameless], $bytes) if defined $owner && defined $nameless;
	return $owner // $nameless // $#$path;
}

# A Fold made of the { nameless } of several: the sums of what they have noted. It serves objects()
# and say_missing() only.
sub joined {
	my ($class, @lists) = @_;
	my %sum;
	for my $own (map { values %$_ } @lists) {
		my $object = $own->{object};
		($sum{ $object->{key} } //= { object => $object, bytes => 0 })->{bytes} += $own->{bytes};
	}
	return bless { nameless => \%sum }, $class;
}

# Adds bytes to the object of a nameless entry.
sub note {
	my ($self, $entry, $bytes) = @_;
	my $object = $Places::object[$self->{entries}{place}[$entry]];
	my $own = $self->{nameless}{ $object->{key} } //= { object => $object, bytes => 0 };
	$own->{bytes} += $bytes;
}

# The caller to show beside an owner. The path begins at the owner; the result is the first other
# entry that is not NAMELESS, else the first other entry, undef if there is no other.
sub caller_of {
	my ($self, $path) = @_;
	my ($owner, $first) = ($path->[0]);
	for my $entry (@$path) {
		next if $entry == $owner;
		return $entry if $self->kind($entry) != NAMELESS;
		$first //= $entry;
	}
	return $first;
}

# { object, bytes } of the objects with nameless frames that were passed over, the heaviest first,
# without those of less than half a byte.
sub objects {
	my ($self) = @_;
	return sort { abs $b->{bytes} <=> abs $a->{bytes}
		    || $a->{object}{key} cmp $b->{object}{key} } grep { abs $_->{bytes} >= 0.5 }
	    values %{ $self->{nameless} };
}

# Notes in one line how much was passed over, of which objects, and where the names of the heaviest
# of them are to be had. To ask for a package takes longer than all else: that is not done if this
# object has less than a hundredth of $all bytes. With $all undef its bytes do not matter.
sub say_missing {
	my ($self, $option, $all) = @_;
	my ($first, @more) = $self->objects;
	return unless $first;
	my $object = $first->{object};
	my $id = $object->{id} || $object->elf->build_id;
	my $text = Print::human($first->{bytes}, $option) . ' lie in functions without a name of '
	    . $object->title
	    . ($id ? " (build-id $id)" : '') . ', shown at their next named callers';
	my $rest = 0;
	$rest += $_->{bytes} for @more;
	$text .= '; ' . Print::human($rest, $option) . ' more in ' . join ', ',
	    (map { $_->{object}->title } @more[0 .. ($#more > 2 ? 2 : $#more)]),
	    @more > 3 ? @more - 3 . ' more' : () if @more;
	Talk::note("$text; " . where_names_are($object, $id,
			100 * abs $first->{bytes} >= abs($all // 0)));
}

# Where the names of an Object with this build-id are, in words.
sub where_names_are {
	my ($object, $id, $is_much) = @_;
	return 'its symbol table does not cover them' if $object->symbol_elf->has_symtab;
	my $package = $is_much ? package_of($object->elf->{path}) : undef;
	my $text = 'their names: ' . (defined $package ? 'package ' . Missing::with_symbols($package)
		: 'the package ending in -dbgsym');
	$text .= ', or /usr/lib/debug' . (length $id > 2
		? '/.build-id/' . substr($id, 0, 2) . '/' . substr($id, 2) . '.debug' : '');
	return "$text, or DEBUGINFOD_URLS" unless length($ENV{DEBUGINFOD_URLS} // '');
	return "$text (DEBUGINFOD_URLS is set, "
	    . (Tool::find('debuginfod-find') ? 'its servers have none)'
		: 'but debuginfod-find, package debuginfod, is not installed)');
}

# The Debian package that has this file, undef if there is no dpkg or it does not know.
sub package_of {
	my ($path) = @_;
	my $dpkg = Tool::find('dpkg-query') or return undef;
	my $real = Cwd::abs_path($path) // $path;
	for my $name ($real, $real =~ s{^/usr(?=/)}{}r) {
		my $text = Tool::filter([$dpkg, '-S', $name], '');
		return $1 if defined $text && $text =~ /^([a-z0-9][a-z0-9.+-]+)(?::\w+)?: /;
	}
	return undef;
}
