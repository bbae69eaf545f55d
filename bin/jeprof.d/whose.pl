# Whose: which allocator answers malloc in a program, by the objects in the order in which the
# loader looks through them, and by what is in their files. Nothing of the program is run: the
# loader of this system is asked for its list. $elf is an Elf. Caller: Doctor.
package Whose;

use constant PIECE => 1 << 20; # bytes of a file that are searched at a time

# %names: KEY of a file named lib<KEY>... => its allocator. @marks: [a text in an object, the
# allocator that it shows]. %sanitizers: a function that an object has => the sanitizer whose malloc
# it has too. $passes_on: files whose malloc counts calls and calls the next one.
my %names = (jemalloc => 'jemalloc', tcmalloc => 'tcmalloc', mimalloc => 'mimalloc',
	snmalloc => 'snmalloc', rpmalloc => 'rpmalloc',
	scudo => 'Scudo', hoard => 'Hoard', mesh => 'Mesh', tbbmalloc => 'TBB malloc');
my @marks = (['<jemalloc>: ', 'jemalloc'], ['mimalloc: ', 'mimalloc'], ['tcmalloc: ', 'tcmalloc']);
my %sanitizers = (__asan_init => 'AddressSanitizer', __hwasan_init => 'HWAddressSanitizer',
	__lsan_init => 'LeakSanitizer', __msan_init => 'MemorySanitizer', __tsan_init => 'ThreadSanitizer');
my $passes_on = qr/^lib(?:memusage|heaptrack_\w+|bytehound)\./;

# What the note of the library says (prof_mailbox.h): 1 with the profiler, 0 without; undef: the
# object is not this library.
sub ours {
	my ($elf) = @_;
	my $owner = "jemalloc\0\0\0\0";
	for my $segment (grep { $_->{type} == Elf::PT_NOTE() } @{ $elf->{segments} }) {
		my $data = $elf->bytes($segment->{offset}, $segment->{filesz});
		my $at = index $data, pack($elf->template('LLL'), 9, 16, 0x6a706d62) . $owner;
		next if $at < 0 || length $data < $at + 32;
		return unpack($elf->template('L'), substr $data, $at + 28, 4) ? 1 : 0;
	}
	return undef;
}

# Whether the loader finds a function of that name in the object.
sub has_dynamic {
	my ($elf, $name) = @_;
	my $entry = $elf->{wide} ? 24 : 16;
	for my $table (grep { $_->{type} == Elf::SHT_DYNSYM() } @{ $elf->sections }) {
		my $strings = $elf->sections->[$table->{link}] or next;
		my $text = $elf->bytes($strings->{offset}, $strings->{size});
		next if index($text, "$name\0") < 0; # or the end of a longer one
		my $data = $elf->bytes($table->{offset}, $table->{size});
		for (my $at = 0; $at + $entry <= length $data; $at += $entry) {
			my $symbol = $elf->symbol(substr $data, $at, $entry) or next;
			return 1 if substr($text, $symbol->{text}, length($name) + 1) eq "$name\0";
		}
	}
	return 0;
}

# The name of another allocator, by the name of its file, then by texts in its file that begin its
# messages (@marks); undef: none that is known.
sub foreign {
	my ($elf, $path) = @_;
	my ($stem) = Object::base_name($path) =~ /^lib([a-z]+?)(?:_\w+)?[-.\d]/;
	return $names{$stem} if defined $stem && $names{$stem};
	my ($at, $kept) = (0, '');
	while (length(my $piece = $elf->bytes($at, PIECE))) {
		my $text = $kept . $piece;
		for my $mark (@marks) {
			return $mark->[1] if index($text, $mark->[0]) >= 0;
		}
		$kept = substr $text, -16;
		$at += length $piece;
	}
	return undef;
}

# { kind, path, name } of an object that has a malloc; kind is ours, bare (ours without the
# profiler), foreign, sanitizer or libc.
sub of_object {
	my ($path, $elf) = @_;
	my $ours = ours($elf);
	return { kind => $ours ? 'ours' : 'bare', path => $path,
		name => 'the library' } if defined $ours;
	return { kind => 'libc', path => $path,
		name => 'the C library' } if Object::base_name($path) =~ /^(?:libc\.|libc-|ld-musl|libc\.musl)/;
	for my $mark (sort keys %sanitizers) {
		return { kind => 'sanitizer', path => $path, name => $sanitizers{$mark} } if has_dynamic($elf, $mark);
	}
	return { kind => 'foreign', path => $path, name => foreign($elf, $path) // 'an allocator' };
}

# The malloc, as of_object() tells it, of the first of these files that exports one which does not
# pass on to the next; undef if none does.
sub first_of {
	my @paths = @_;
	for my $path (grep { Object::base_name($_) !~ $passes_on } @paths) {
		my $elf = Elf::open_file($path) or next;
		return of_object($path, $elf) if has_dynamic($elf, 'malloc');
	}
	return undef;
}

# The malloc, as of_object() tells it, of a statically linked program, by what its own file
# contains.
sub static_one {
	my ($path, $elf) = @_;
	my $ours = ours($elf);
	return of_object($path, $elf) if defined $ours;
	my $name = foreign($elf, $path);
	return defined $name ? { kind => 'foreign', path => $path, name => $name }
	    : { kind => 'libc', path => $path, name => 'the C library' };
}

# The files of the objects of a program in the loader's order, preloaded ones (by our LD_PRELOAD)
# first; () if its loader cannot be asked: it is of another kind of machine than perl, or no file of
# root in /lib or the like.
sub objects {
	my ($path, $elf) = @_;
	my $loader = Run::loader_of($elf);
	my $own = Elf::open_file($^X) or return;
	return unless $loader =~ m{^(?:/usr)?/lib\w*/[^\s]+$} && $loader !~ m{/\.\./} && -x $loader
	    && (stat _)[4] == 0;
	return if grep { $elf->{$_} ne $own->{$_} } qw(machine wide order);
	my $text = Tool::filter([$loader, '--list', $path], '') // return;
	return grep { -f } map { m{(?:=> )?(/\S.*?) \(0x[0-9a-f]+\)$} ? $1 : () } split /\n/, $text;
}
