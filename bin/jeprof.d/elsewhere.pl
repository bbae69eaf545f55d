# Elsewhere: memory of a process that does not come from malloc, told in words where a person would
# else see a profile of next to nothing: interpreters and virtual machines have heaps of their own.
# Callers: frag, top, live, doctor, report.
package Elsewhere;

# RSS far above what the allocator has: so many times, and so many bytes more.
use constant { TIMES => 2, MORE => 16 << 20 };

# [program's name, object's name, whose heap it is, how to see it]
my @heaps = (
	[qr/^python[\d.]*$/, qr/^libpython/, 'CPython has an allocator of its own for objects up to 512 bytes',
	    'to see it: PYTHONMALLOC=malloc'],
	[qr/^java$/, qr/^libjvm\.so/, 'the Java heap, code and metadata are the JVM\'s own mappings',
	    'to see them: jcmd PID GC.heap_info, VM.native_memory; here is its native memory'],
	[qr/^node(?:js)?$/, qr/^libnode\.so/, 'V8 maps the heap of JavaScript itself',
	    'to see it: node --heap-prof; here is its native memory'],
	[qr/^(?:ruby|php)[\d.]*$/, qr/^lib(?:ruby|php)/, 'the interpreter maps a heap of its own',
	    'to see PHP\'s: USE_ZEND_ALLOC=0'],
);

sub number {
	my ($dump, $key) = @_;
	my $value = $dump->{meta}{$key} // '';
	return $value =~ /^\d{1,18}$/ ? $value : undef;
}

# What is in memory beside the allocator's, by the kernel's count: { files, other } in bytes. other is
# negative where pages that count as resident were never touched.
sub beside {
	my ($dump) = @_;
	my ($rss, $shared) = map { number($dump, $_) } qw(rss rss_shared);
	my $heap = $dump->{heap} ? $dump->{heap}{resident} : number($dump, 'resident');
	return undef unless $rss && defined $heap;
	return { rss => $rss, files => $shared // 0, other => $rss - $heap - ($shared // 0), heap => $heap };
}

# Go's runtime marks its programs by a section.
sub is_go {
	my ($path) = @_;
	my $elf = defined $path && -f $path ? Elf::open_file($path) : undef;
	return $elf && $elf->section('.note.go.buildid') ? 1 : 0;
}

# Whose heap it may be, in words; by the path of the program and those of its objects.
sub whose {
	my ($program, @objects) = @_;
	my $name = Object::base_name($program // '');
	for my $heap (@heaps) {
		my ($is_program, $is_object, $what, $how) = @$heap;
		return "$what; $how" if $name =~ $is_program || grep { Object::base_name($_) =~ $is_object } @objects;
	}
	return 'Go\'s runtime maps the heap of Go itself; to see it: net/http/pprof; here is what cgo allocates'
	    if is_go($program);
	return '';
}

# How much of RSS is not the allocator's, and whose it may be; '' where that is not far more.
sub text {
	my ($rss, $heap, $shared, $whose, $option) = @_;
	return '' unless $rss > TIMES * $heap && $rss - $heap > MORE;
	my ($all, $own, $files) = map { Print::human($_, $option) } $rss, $heap, $shared // 0;
	my $other = $rss - $heap - ($shared // 0);
	my $beside = !defined $shared ? 'is not malloc\'s: code, data, stacks, mapped files, other mappings'
	    : "is not malloc's: $files of code and mapped files, " . Print::human($other > 0 ? $other : 0, $option)
		. ' of data, stacks and other mappings';
	return "$all in memory, $own of it through malloc; the rest $beside" . (length $whose ? " ($whose)" : '');
}

# Of a profile.
sub sentence {
	my ($dump, $option) = @_;
	return '' if Contention::is_one($dump);
	my $beside = beside($dump) // return '';
	my $shared = number($dump, 'rss_shared');
	return text(@$beside{qw(rss heap)}, $shared, whose($dump->{meta}{exe}, map { $_->{path} } @{ $dump->{maps} },
	    @{ $dump->{modules} }), $option);
}
