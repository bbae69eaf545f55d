# Missing: objects that profiles need for their names and that are not there or tell nothing, each
# with its build-id and where it is to be had. It asks this machine alone: no network.
package Missing;

# { object, places } of each object that a stack goes through, in the order of their keys.
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

# { object, bytes, share } of each object in which rows ([bytes, place, is it nameless]) lie without
# a name, the heaviest first; share is a percentage of all bytes. An object whose symbol table is
# here lacks nothing.
sub of_rows {
	my ($all, @rows) = @_;
	my %own;
	for my $row (grep { $_->[2] && $_->[0] > 0 } @rows) {
		my $object = $Places::object[$row->[1]] or next;
		next unless $object->is_file && !$Places::given[$row->[1]] && !is_silent($object)
		    && !is_whole($object);
		my $own = $own{ $object->{key} } //= { object => $object, bytes => 0 };
		$own->{bytes} += $row->[0];
	}
	$_->{share} = $all ? 100 * $_->{bytes} / $all : 0 for values %own;
	return sort { $b->{bytes} <=> $a->{bytes}
		    || $a->{object}{key} cmp $b->{object}{key} } values %own;
}

# Is its symbol table here? Then no other file says more.
sub is_whole {
	my ($object) = @_;
	return $object->elf && $object->symbol_elf->has_symtab ? 1 : 0;
}

sub id_of {
	my ($object) = @_;
	return $object->{id} || ($object->elf ? $object->elf->build_id : '');
}

# Where it is to be had, in words. To ask for its package takes long: not for what holds less than a
# hundredth.
sub where {
	my ($own) = @_;
	return join ', or ', places_to_have($own->{object}, id_of($own->{object}), $own->{share} < 1);
}

# "missing":[{path, build_id, share, where}], of what of_rows gives.
sub json {
	return '"missing":[' . join(',',
		map { sprintf '{"path":%s,"build_id":%s,"share":%.2f,"where":%s}',
			    Top::json_string(Talk::clean($_->{object}{path})),
			    Top::json_string(id_of($_->{object})), $_->{share},
			    Top::json_string(Talk::clean(where($_))) } @_) . ']';
}

# The same as sentences. Of a file that is not there the doubt has said where it is to be had.
sub sentences {
	return map {
		my $id = id_of($_->{object});
		sprintf('%s of the bytes have no name: ', Print::percent($_->{share}, 100))
		    . $_->{object}{path}
		    . ($_->{object}->elf ? (length $id ? " (build-id $id)" : '') . ' has no symbols: '
			    . where($_) : ' is missing');
	} @_;
}

# One line for each that lacks. How much of a profile that is judges Print::check_names, for all
# forms alike.
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

# The allocator's own frames are cut.
sub is_silent {
	my ($object) = @_;
	return $object->{is_library} // $object->title =~ /^libjemalloc/ ? 1 : 0;
}

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

sub url {
	my ($id, $kind) = @_;
	my ($server) = split ' ', $ENV{DEBUGINFOD_URLS} // '';
	return sprintf '%s/buildid/%s/%s',
	    defined $server ? $server =~ s{/+$}{}r : 'https://debuginfod.debian.net', $id, $kind;
}

# The Debian package: the one that has the file here, else the name that Debian would give it.
sub package_hint {
	my ($object, $kind, $is_quick) = @_;
	my $package = ($is_quick ? undef : Fold::package_of($object->{path})) // guess($object->title);
	return () unless defined $package;
	return 'package ' . ($kind eq 'debuginfo' ? with_symbols($package) : $package);
}

# The C library's symbols are no package of the archive for debugging.
sub with_symbols {
	my ($package) = @_;
	return $package =~ /^(libc6(?:\.1)?|libc0\.\d)(?:-\w+)?(?= |$)/ ? "$1-dbg" : $package =~ / /
	    ? $package =~ s/ /-dbgsym /r : "$package-dbgsym";
}

# libfoo.so.1 is of libfoo1, libfoo2.so.0 and libfoo-2.so.0 of libfoo2-0 and libfoo-2-0.
sub guess {
	my ($name) = @_;
	return 'libc6 (by its name)'
	    if $name =~ /^(?:ld-linux[\w-]*|lib(?:c|m|pthread|dl|rt|resolv|nss_\w+))\.so\.\d+$/;
	return undef unless $name =~ /^(lib[\w+-]+?)\.so\.(\d+)/;
	my ($stem, $version) = ($1, $2);
	return lc($stem =~ /\d$/ ? "$stem-$version" : "$stem$version") =~ tr/_/-/r . ' (by its name)';
}
