# Missing: objects that profiles need for their names and that are not there or tell nothing, each with its build-id and where it is to be
# had. It asks this machine alone: no network.
package Missing;

# { object, places } of each object that a stack goes through, in the order of their keys.
sub objects {
	my %own;
	for my $place (0 .. $#Places::object) {
		my $object = $Places::object[$place] or next;
		next unless $object->is_file && !$Places::given[$place];
		push @{ ($own{ $object->{key} } //= { object => $object, places => [] })->{places} }, $place;
	}
	return map { $own{$_} } sort keys %own;
}

# One line for each that lacks, a doubt.
sub tell {
	for my $own (objects()) {
		my $object = $own->{object};
		my @bare = grep { $Names::frames[$_][-1]{is_bare} } @{ $own->{places} };
		next if !@bare || is_silent($object);
		my $id = $object->{id} || ($object->elf ? $object->elf->build_id : '');
		Talk::doubt(sprintf 'missing: %s%s: %d of %d calls without a name; %s', $object->{path}, length $id ? " (build-id $id)" : ' (no build-id)', scalar @bare, scalar @{ $own->{places} },
			join ', or ', places_to_have($object, $id));
	}
}

# The allocator's own frames are cut.
sub is_silent {
	my ($object) = @_;
	return $object->{is_library} // $object->title =~ /^libjemalloc/ ? 1 : 0;
}

sub places_to_have {
	my ($object, $id) = @_;
	my @text;
	my $kind = $object->elf ? 'debuginfo' : 'executable';
	if (length $id > 2) {
		push @text, url($id, $kind);
		push @text, sprintf('/usr/lib/debug/.build-id/%s/%s.debug', substr($id, 0, 2), substr $id, 2) if $kind eq 'debuginfo';
	}
	push @text, package_hint($object, $kind);
	push @text, $object->elf ? () : 'from where it ran: --sysroot=DIR, --add_lib=FILE' . ($object->{is_main} ? ', --exe=FILE' : '');
	return @text;
}

sub url {
	my ($id, $kind) = @_;
	my ($server) = split ' ', $ENV{DEBUGINFOD_URLS} // '';
	return sprintf '%s/buildid/%s/%s', defined $server ? $server =~ s{/+$}{}r : 'https://debuginfod.debian.net', $id, $kind;
}

# The Debian package: the one that has the file here, else the name that Debian would give it.
sub package_hint {
	my ($object, $kind) = @_;
	my $package = Fold::package_of($object->{path}) // guess($object->title);
	return () unless defined $package;
	return 'package ' . ($kind eq 'debuginfo' ? "$package-dbgsym" : $package);
}

# libfoo.so.1 is of libfoo1, libfoo2.so.0 and libfoo-2.so.0 of libfoo2-0 and libfoo-2-0.
sub guess {
	my ($name) = @_;
	return undef unless $name =~ /^(lib[\w+-]+?)\.so\.(\d+)/;
	my ($stem, $version) = ($1, $2);
	return lc($stem =~ /\d$/ ? "$stem-$version" : "$stem$version") =~ tr/_/-/r . ' (by its name)';
}
