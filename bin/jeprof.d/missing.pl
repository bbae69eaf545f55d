# Missing: the object files that the names of a profile need, but that are not here or have no
# symbols; each with its build-id and where to get it. Runs dpkg-query (by Fold), but asks no
# network; Object may have asked debuginfod. Called by Top, Report, Page, Pack and Export for whole
# profiles, by Object and Fold for single files.
package Missing;

# { object, places } of each object file that a stack goes through, here or not, in the order of
# their keys. A place whose name came with the profile needs no object and is left out. The object
# is an Object, here and below.
sub objects {
	my %own;
	for my $place (0 .. $#Places::object) {
		my $object = $Places::object[$place] or next;
		next unless $object->is_file && !$Places::given[$place];
		push @{ ($own{ $object->{key} } //= { object => $object, places => [] })->{places} },
		    $place;
	}
	return map { $own{$_} } sort keys %own;
}

# { object, bytes, share } of each object file that leaves rows ([bytes, place, is it nameless])
# without a name, the one with most such bytes first; share is their percentage of the bytes of all
# rows. Rows of a difference count without their signs. An object whose symbol table is here lacks
# nothing; the allocator's library is left out.
sub of_rows {
	my @rows = @_;
	my (%own, $all);
	$all += abs $_->[0] for @rows;
	for my $row (grep { $_->[2] && $_->[0] } @rows) {
		my $object = $Places::object[$row->[1]] or next;
		next unless $object->is_file && !$Places::given[$row->[1]] && !is_silent($object)
		    && !is_whole($object);
		my $own = $own{ $object->{key} } //= { object => $object, bytes => 0 };
		$own->{bytes} += abs $row->[0];
	}
	$_->{share} = 100 * $_->{bytes} / $all for values %own;
	return sort { $b->{bytes} <=> $a->{bytes}
		    || $a->{object}{key} cmp $b->{object}{key} } values %own;
}

# Whether the symbol table of an Object is here. Then no other file has more names.
sub is_whole {
	my ($object) = @_;
	return $object->elf && $object->symbol_elf->has_symtab ? 1 : 0;
}

# The build-id of an Object, by the profile or its file; '' if it has none.
sub id_of {
	my ($object) = @_;
	return $object->{id} || ($object->elf ? $object->elf->build_id : '');
}

# Where to get the file of a row of of_rows(), in words. Asking for its package takes long, so it is
# not done for an object with less than a hundredth of the bytes.
sub where {
	my ($own) = @_;
	return join ', or ', places_to_have($own->{object}, id_of($own->{object}), $own->{share} < 1);
}

# "missing":[{path, build_id, share, where}], of rows of of_rows().
sub json {
	return '"missing":[' . join(',',
		map { sprintf '{"path":%s,"build_id":%s,"share":%.2f,"where":%s}',
			    Top::json_string(Talk::clean($_->{object}{path})),
			    Top::json_string(id_of($_->{object})), $_->{share},
			    Top::json_string(Talk::clean(where($_))) } @_) . ']';
}

# Rows of of_rows() as sentences. Where to get a file that is missing stands in the doubt about it
# (Object::complain), and not in these.
sub sentences {
	return map {
		my $id = id_of($_->{object});
		sprintf('%s of the bytes have no name: ', Print::percent($_->{share}, 100))
		    . $_->{object}{path}
		    . ($_->{object}->elf ? (length $id ? " (build-id $id)" : '') . ' has no symbols: '
			    . where($_) : ' is missing');
	} @_;
}

# Notes one line for each object file that has places (shown as calls) without a name and no symbol
# table here, not for the allocator's library. Whether too much of the profile has no name is for
# Print::check_names to say, which does so for all forms of output.
sub tell {
	for my $own (objects()) {
		my $object = $own->{object};
		my @bare = grep { $Names::frames[$_][-1]{is_bare} } @{ $own->{places} };
		next if !@bare || is_silent($object) || is_whole($object);
		my $id = id_of($object);
		Talk::note(sprintf 'missing: %s%s: %d of %d calls without a name; %s', $object->{path},
			length $id ? " (build-id $id)" : ' (no build-id)', scalar @bare,
			scalar @{ $own->{places} },
			join ', or ', places_to_have($object, $id));
	}
}

# Whether an Object is the allocator's library: as Reduce::is_library found, else by its name. Its
# frames are cut, so it needs no names.
sub is_silent {
	my ($object) = @_;
	return $object->{is_library} // $object->title =~ /^libjemalloc/ ? 1 : 0;
}

# A list of where to get the file, or its symbols if the file is here; $is_quick: do not ask for its
# package, but guess it by the name.
sub places_to_have {
	my ($object, $id, $is_quick) = @_;
	my @text;
	my $kind = $object->elf ? 'debuginfo' : 'executable';
	if (length $id > 2) {
		push @text, url($id, $kind);
		push @text, sprintf('/usr/lib/debug/.build-id/%s/%s.debug', substr($id, 0, 2), substr $id,
			2) if $kind eq 'debuginfo';
	}
	push @text, package_hint($object, $kind, $is_quick);
	push @text, $object->elf ? () : 'from where it ran: --sysroot=DIR, --add_lib=FILE'
	    . ($object->{is_main} ? ', --exe=FILE' : '');
	return @text;
}

# The URL of a file at a debuginfod server: the user's first one, else Debian's. $kind: debuginfo or
# executable.
sub url {
	my ($id, $kind) = @_;
	my ($server) = split ' ', $ENV{DEBUGINFOD_URLS} // '';
	return sprintf '%s/buildid/%s/%s',
	    defined $server ? $server =~ s{/+$}{}r : 'https://debuginfod.debian.net', $id, $kind;
}

# Words about its Debian package: the one that has the file here, else the name that Debian would
# give it; () if neither is known.
sub package_hint {
	my ($object, $kind, $is_quick) = @_;
	my $package = ($is_quick ? undef : Fold::package_of($object->{path})) // guess($object->title);
	return () unless defined $package;
	return 'package ' . ($kind eq 'debuginfo' ? with_symbols($package) : $package);
}

# The package with the symbols of a package: NAME-dbgsym, but libc6-dbg of the C library. Words
# behind the name stay.
sub with_symbols {
	my ($package) = @_;
	my ($name, $words) = $package =~ /^(\S+)(.*)/;
	return ($name =~ /^(libc6(?:\.1)?|libc0\.\d)(?:-\w+)?$/ ? "$1-dbg" : "$name-dbgsym") . $words;
}

# The package that a library is in by Debian's rule, and the words "(by its name)": libfoo.so.1 is
# in libfoo1; after a digit comes a hyphen, so libfoo2.so.0 is in libfoo2-0. undef: it is not named
# lib*.so.NUMBER.
sub guess {
	my ($name) = @_;
	return 'libc6 (by its name)'
	    if $name =~ /^(?:ld-linux[\w-]*|lib(?:c|m|pthread|dl|rt|resolv|nss_\w+))\.so\.\d+$/;
	return undef unless $name =~ /^(lib[\w+-]+?)\.so\.(\d+)/;
	my ($stem, $version) = ($1, $2);
	return lc($stem =~ /\d$/ ? "$stem-$version" : "$stem$version") =~ tr/_/-/r . ' (by its name)';
}
