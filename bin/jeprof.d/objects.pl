# Object: a mapped file, shared by all dumps that mapped it. { key }: the build-id, else the path, see
# also of_code(); { id }: the build-id in hex or ''; { path }; { code }: its mappings of code, a list of [file
# offset, length] in bytes; { gone }: it was deleted; { is_main }: it is the main program; {
# is_asked }: elf() was called, so that doubts of it are told. elf() and the like keep their results
# in members of the same names. Package Places is below. Main sets the
# variables of options, Pack sets %packed. Callers: Places (get), Names, Reduce, Fold, Missing,
# Pack, Source and Report for file or name, Doctor for debug_paths(); most rooms for base_name().
package Object;

use Cwd ();

our %by_key; # key -> Object
our %packed; # pack_key() -> Elf, of packs
our $program; # PROGRAM or --exe: a path, undef if not given
# --sysroot, --lib_prefix, --add_lib, --debug-dir.
our ($sysroot, @prefixes, @extra, $debug_dir) = ('');
# Directories above the profiles, each once. A process in a chroot writes its profile below its root
# directory, so one of them may be that root; so may /proc/PID/root. A file below one counts only
# with the right build-id.
my (@above, %is_above);

# The Object of a build-id ('': not known) and a path, made if it is not there.
sub get {
	my ($id, $path) = @_;
	my $key = $id || $path;
	return $by_key{$key} //= bless { key => $key, id => $id, path => $path, code => [],
		is_main => 0 }, 'Object';
}

# The Object of a path without a build-id, for a dump with these mappings of code ([file offset,
# length]): that of get(), unless its file was judged by the mappings of other dumps and these are
# of another build. Then it is another one of the same path, for all dumps with these.
sub of_code {
	my ($path, @code) = @_;
	my $self = get('', $path);
	if (!exists $self->{elf}) {
		Places::join_code($self->{code}, @$_) for @code;
	} elsif ($self->is_other_build(@code)) {
		my $key = join "\0", $path, map { sprintf '%x+%x', @$_ } @code;
		$self = $by_key{$key} //= bless { %{ get('', $path) }{qw(id path gone)}, key => $key, code => [@code], is_main => 0 }, 'Object';
	}
	return $self;
}

# Whether mappings of code are not of the file that was found for an Object, or that was refused.
sub is_other_build {
	my ($self, @code) = @_;
	my %known = map { ("@$_" => 1) } @{ $self->{code} };
	my @new = grep { !$known{"@$_"} } @code;
	return grep({ !$self->{elf}->fits_mapping(@$_) } @new) > 0 if $self->{elf};
	return @new && @{ $self->{refused} // [] } > 0;
}

# Notes the directories above the profile of this path, the deepest first.
sub note_above {
	my ($file) = @_;
	return unless -e $file;
	my $path = $file =~ m{^/} ? $file : (Cwd::getcwd() // '') . "/$file";
	push @above, $path while $path =~ s{/[^/]*\z}{} && length $path && !$is_above{$path}++;
}

# A path without its directories.
sub base_name {
	my ($path) = @_;
	$path =~ s{.*/}{};
	return $path;
}

# The name of its file, for people.
sub title {
	my ($self) = @_;
	return Talk::clean(base_name($self->{path}));
}

# Whether it is a file, not a mapping such as [stack].
sub is_file {
	my ($self) = @_;
	return $self->{path} =~ m{^/} || $self->{is_main} && $self->{path} !~ /^\[/;
}

# Paths where the file may be, in the order in which they are tried.
sub candidates {
	my ($self) = @_;
	my $path = $self->{path};
	my @list;
	push @list, $program if $self->{is_main} && defined $program;
	my $name = base_name($path);
	push @list, grep { base_name($_) eq $name } @extra;
	push @list, map { ("$_$path", "$_/$name") } grep { length } $sysroot, @prefixes;
	push @list, map { "$_$path" } @above if $self->{id} && $path =~ m{^/};
	push @list, $path unless length $sysroot && !$self->{id};
	push @list, "$path (deleted)" if $self->{gone} && !length $sysroot; # a file may be called so
	my %seen;
	return grep { !$seen{$_}++ } @list;
}

# The Elf of the file that ran, see found(), for callers who need names of it. A doubt for each file
# that was refused, and for an object that is_file() if no file was found at all.
sub elf {
	my ($self) = @_;
	my $elf = $self->found;
	$self->complain(@{ $self->{refused} // [] }) unless $self->{is_asked}++;
	return $elf;
}

# The Elf of the file that ran, found once: that of a pack, else of the first file that fits, else,
# if no file was refused, from debuginfod; undef if there is none. Tells no doubt.
sub found {
	my ($self) = @_;
	return $self->{elf} if exists $self->{elf};
	my @refused;
	$self->{elf} = undef;
	for my $file ($packed{ $self->pack_key } // (), $self->candidates) {
		my $elf = ref $file ? $file : Elf::open_file($file) // next;
		my $reason = $self->mismatch($elf);
		if ($reason) {
			push @refused, "$elf->{path}: $reason";
			next;
		}
		$self->{elf} = $elf;
		last;
	}
	$self->{elf} //= from_debuginfod('executable', $self->{id}) if $self->is_file && !@refused;
	$self->{refused} = \@refused;
	return $self->{elf};
}

# Says the doubts of elf(): why files were refused, or that none was found and where to get it.
sub complain {
	my ($self, @refused) = @_;
	my $used = $self->{elf} ? "; using $self->{elf}{path}" : '; its names are not used';
	Talk::doubt_names("$_$used") for @refused;
	return if @refused || $self->{elf} || !$self->is_file;
	my $id = $self->{id};
	Talk::doubt_names("$self->{path}: not found or not an ELF file; its names are missing ("
		    . (length $id > 2 ? "build-id $id" : 'no build-id') . '): '
		    . join ', or ', Missing::places_to_have($self, $id, 1));
}

# What its file is called in packs: the key of one without a build-id depends on the order of the
# dumps.
sub pack_key { return $_[0]{id} || $_[0]{path} }

# What its pack tells of lines, see Names::found_lines; undef if there is no pack, or no line.
sub packed_lines {
	my ($self) = @_;
	my $key = $self->pack_key;
	return $packed{$key} && ($self->elf // 0) == $packed{$key} ? $Pack::lines{$key} : undef;
}

# Why an Elf cannot be the file that ran, in words; '' if it can.
sub mismatch {
	my ($self, $elf) = @_;
	if ($self->{id}) {
		my $id = $elf->build_id;
		return '' if $id eq $self->{id};
		return 'another build: build-id ' . ($id || 'none') . ", the dump has $self->{id}";
	}
	for my $map (@{ $self->{code} }) {
		return 'another build: its code does not fit the mapping in the dump'
		    unless $elf->fits_mapping(@$map);
	}
	return '';
}

# The Elf with the full symbol table: the object itself, or its separate debug file. Without a debug
# file it is the object; undef if the file of the object is not here.
sub symbol_elf {
	my ($self) = @_;
	return $self->elf_that('has_symtab');
}

# The same with source lines.
sub line_elf {
	my ($self) = @_;
	return $self->elf_that('has_lines');
}

# The same of what a method of Elf asks for.
sub elf_that {
	my ($self, $has) = @_;
	my $elf = $self->elf;
	return $self->{$has} //= !$elf || $elf->$has ? $elf : $self->debug_elf || $elf;
}

# The Elf of the separate debug file; undef if there is none. A file with another build-id is passed
# over. A file without a build-id is taken, because files named by .gnu_debuglink often have none.
# elf() must have returned an Elf.
sub debug_elf {
	my ($self) = @_;
	return $self->{debug_elf} if exists $self->{debug_elf};
	my $elf = $self->elf;
	my $id = $elf->build_id || $self->{id};
	for my $path (debug_paths($elf, $id)) {
		my $debug = Elf::open_file($path) or next;
		next if $id && $debug->build_id && $debug->build_id ne $id;
		return $self->{debug_elf} = $debug;
	}
	return $self->{debug_elf} = from_debuginfod('debuginfo', $id);
}

# Device and inode of the file of a path, '' if there is none.
sub identity {
	my ($path) = @_;
	my ($device, $inode) = stat $path;
	return defined $inode ? "$device $inode" : '';
}

# The Elf that debuginfod's servers have for a build-id, where the person has named some; undef
# otherwise. $what: executable or debuginfo.
sub from_debuginfod {
	my ($what, $id) = @_;
	return undef unless length $id > 2 && $id !~ /[^0-9a-f]/ && length($ENV{DEBUGINFOD_URLS} // '');
	my $tool = Tool::find('debuginfod-find') or return undef;
	local $ENV{DEBUGINFOD_TIMEOUT} = $ENV{DEBUGINFOD_TIMEOUT} // 30;
	my $path = Tool::filter([$tool, $what, $id], '') // return undef;
	my $elf = Elf::open_file($path =~ s/\n.*//sr) or return undef;
	return $elf->build_id eq $id ? $elf : undef;
}

# Paths where the separate debug file of an Elf with this build-id may be; not those of the Elf's own
# file, which .gnu_debuglink may name. Doctor calls it too.
sub debug_paths {
	my ($elf, $id) = @_;
	my @roots = grep { defined && length } $debug_dir,
	    length $sysroot ? "$sysroot/usr/lib/debug" : undef, map({ "$_/usr/lib/debug" } @above),
	    '/usr/lib/debug';
	my @paths;
	push @paths, map { "$_/.build-id/" . substr($id, 0, 2) . '/' . substr($id, 2)
		    . '.debug' } @roots if length $id > 2;
	my $link = $elf->debug_link;
	if (defined $link) {
		# /proc/PID/root is a link to "/", which would lead to the files of this root directory
		my $path = $elf->{path} =~ m{^/proc/\d+/root/} ? $elf->{path} : Cwd::abs_path($elf->{path});
		my ($dir) = $path =~ m{^(.*)/};
		push @paths, "$dir/$link", "$dir/.debug/$link", map { ("$_$dir/$link", "$_/$link") } @roots;
	}
	my $own = identity($elf->{path}); # its path may be relative or a link
	return grep { $_ ne $elf->{path} && (!$own || identity($_) ne $own) } @paths;
}

# ---------------------------------------------------------------------------------------------------
# Places: gives addresses numbers. A place is (object, offset); it is told by its number, from 0.
# Equal places of several dumps have one number; where profiles bring names along, the names must be
# equal too. The offset is the virtual address in the file of the object. Exceptions: where only a
# map covers the address and the file is not here, it is the offset in the file; where nothing
# covers it, the address. Callers: Main, Series, Live and Pack (number_stacks), Report (of_text, ranges),
# Main for --symbols (number), Pprof and Otlp (span); others read the lists by place.
package Places;

use constant DEEPEST => 4096; # frames of a stack that are kept; the library writes no more

# by place: Object or undef, offset, first address seen, names brought along (a list) or undef
our (@object, @offset, @address, @given);
my %number; # key of a place -> its number

# The ranges of one dump, sorted by start: { start, end, object }. One of a module line also has
# { bias }: its offset is the address - bias; one of a map has the members of the map. A map whose
# start a module line covers is left out. Also finds the main program (mark_main). Made once.
sub ranges {
	my ($dump) = @_;
	return $dump->{ranges} if $dump->{ranges};
	Object::note_above($dump->{file});
	my %ids;
	my @all;
	my @maps = sort { $a->{start} <=> $b->{start} } grep { $_->{path} =~ m{^/|^\[} } @{ $dump->{maps} };
	for my $module (@{ $dump->{modules} }) {
		my $map = find_range(\@maps, $module->{start});
		@$module{qw(path gone)} = @$map{qw(path gone)} if $map; # the loader's name may be relative or a link
		$module->{path} = program_path($dump, $module) unless $module->{path} =~ m{^[/\[]};
		my $object = Object::get($module->{id}, $module->{path});
		$object->{gone} ||= $module->{gone};
		$ids{ $module->{path} } //= $module->{id};
		push @all, { %$module, object => $object };
	}
	my @covered = sort { $a->{start} <=> $b->{start} } @all;
	my @bare = grep { !find_range(\@covered, $_->{start}) } @maps;
	my %code;
	join_code($code{ $_->{path} } //= [], $_->{offset}, $_->{end} - $_->{start})
	    for grep { $_->{perms} =~ /x/ } @bare;
	for my $map (@bare) {
		my ($id, $path) = ($ids{ $map->{path} } // '', $map->{path});
		my $object = $id ? Object::get($id, $path) : Object::of_code($path, @{ $code{$path} // [] });
		$object->{gone} ||= $map->{gone} if $map->{perms} =~ /x/;
		push @all, { %$map, object => $object };
	}
	@all = sort { $a->{start} <=> $b->{start} } @all;
	mark_main($dump, \@all);
	return $dump->{ranges} = \@all;
}

# The lowest and the highest address of an object in one dump; (0, 0) if it is not in it.
sub span {
	my ($dump, $object) = @_;
	$dump->{spans} //= do {
		my %spans;
		for my $range (@{ ranges($dump) }) {
			$spans{ $range->{object} } //= [$range->{start}];
			$spans{ $range->{object} }[1] = $range->{end};
		}
		\%spans;
	};
	return @{ $dump->{spans}{$object} // [0, 0] };
}

# The path for a module that has none, or a relative one; that one, if no other can be told. The first
# module is the program: the loader does not know its path, and a dump written without /proc has no
# map that names it. It gets the path by which it was started (exe) if that is absolute, else that of
# the given file ($Object::program), if the build-ids are equal or the module has none; else, without
# even a relative path, [program], with a doubt. Another module gets the path of the given file only
# if the build-ids are equal. A module that gets a path is marked as the program.
sub program_path {
	my ($dump, $module) = @_;
	my ($exe, $given) = ($dump->{meta}{exe} // '', $Object::program);
	my $is_first = $module == $dump->{modules}[0];
	my $elf = defined $given ? Elf::open_file($given) : undef;
	my $is_given = $elf && length $module->{id} && $elf->build_id eq $module->{id};
	return $module->{path} if !$is_first && !$is_given;
	$dump->{has_nameless} = $module->{is_program} = 1;
	return $exe if $is_first && $exe =~ m{^/};
	return Cwd::abs_path($given) if $is_given || $elf && !length $module->{id};
	my $relative = length $module->{path} ? $module->{path} : $exe;
	return $relative if length $relative;
	my $id = length $module->{id} ? " (build-id $module->{id})" : '';
	my $why = $elf ? "$given is another build (build-id " . ($elf->build_id || 'none') . ')'
	    : 'its names need --exe=FILE';
	Talk::doubt_names("$dump->{file}: has no path of the program$id; $why");
	return '[program]';
}

# Adds a mapping of code to a list [file offset, length] as { code } of an Object, by which mismatch()
# judges files if the dump has no build-id. One that continues another in the file is joined to it:
# a segment may be in two mappings, and not in each dump in the same ones. So one that lies in
# another adds nothing.
sub join_code {
	my ($code, $start, $length) = @_;
	my $end = $start + $length;
	return if grep { $_->[0] <= $start && $end <= $_->[0] + $_->[1] } @$code;
	my ($before) = grep { $_->[0] + $_->[1] == $start } @$code;
	$start = $before->[0] if $before;
	@$code = grep { $_->[0] < $start || $_->[0] + $_->[1] > $end } @$code;
	push @$code, [$start, $end - $start];
}

# The range that holds an address, of ranges sorted by it; undef if none does.
sub find_range {
	my ($ranges, $address) = @_;
	my ($low, $high) = (0, scalar @$ranges);
	while ($low < $high) {
		my $middle = ($low + $high) >> 1;
		if ($ranges->[$middle]{end} <= $address) { $low = $middle + 1 } else { $high = $middle }
	}
	my $range = $ranges->[$low];
	return $range && $range->{start} <= $address ? $range : undef;
}

# Sets { main } of the dump to the Object of the main program: the module marked by program_path(),
# else the path that the dump tells (exe), else the given file, else the first mapped file.
sub mark_main {
	my ($dump, $ranges) = @_;
	return $dump->{main} = nameless_main($dump, $ranges) if $dump->{has_nameless};
	my @objects = map { $_->{object} } grep { $_->{object}->is_file } @$ranges;
	my $given = $Object::program;
	my @wanted = grep { defined && length } $dump->{meta}{exe},
	    defined $given ? Cwd::abs_path($given) : undef;
	s/ \(deleted\)$// for @wanted;
	my $main;
	for my $path (@wanted) {
		($main) = grep { $_->{path} eq $path } @objects;
		last if $main;
	}
	if (!$main && defined $given) {
		($main) = grep { Object::base_name($_->{path}) eq Object::base_name($given) } @objects;
	}
	$main ||= $objects[0];
	if ($main) {
		$main->{is_main} = 1;
		$dump->{main} = $main;
	} elsif (defined $given) {
		add_fixed_program($dump, $ranges, $given);
	}
}

# The object of the module that has got its path by program_path().
sub nameless_main {
	my ($dump, $ranges) = @_;
	my ($first) = map { $_->{object} } grep { $_->{is_program} } @$ranges;
	$first->{is_main} = 1;
	return $first;
}

# For a dump that maps no file: adds the segments of the given program to @$ranges, if it is linked
# to fixed addresses; else a doubt.
sub add_fixed_program {
	my ($dump, $ranges, $given) = @_;
	my $elf = Elf::open_file($given);
	return if !$elf || $dump->{symbols};
	return Talk::doubt_names("$dump->{file}: does not tell where $given was loaded, which is linked to no fixed address; its names are missing")
	    if $elf->{type} != Elf::ET_EXEC();
	my $path = Cwd::abs_path($given);
	my $object = Object::get('', $path);
	$object->{is_main} = 1;
	$dump->{main} = $object;
	for my $segment (grep { $_->{type} == Elf::PT_LOAD() } @{ $elf->{segments} }) {
		push @$ranges, { start => $segment->{vaddr}, end => $segment->{vaddr} + $segment->{filesz},
			bias => 0,
			object => $object, path => $path };
	}
	@$ranges = sort { $a->{start} <=> $b->{start} } @$ranges;
}

# The number of the place of an address in a dump, a new one if it is not known yet.
sub number {
	my ($dump, $address) = @_;
	my $range = find_range(ranges($dump), $address);
	my $names = $dump->{symbols} && $dump->{symbols}{$address};
	my ($object, $offset) = (undef, $address);
	if ($range) {
		$object = $range->{object};
		$offset = defined $range->{bias} ? $address - $range->{bias} : offset_in($range, $address, $names);
	}
	my $key = ($object ? $object->{key} : '') . "\0$offset";
	$key = join "\0", $key, @$names if $names;
	return $number{$key} //= new_place($object, $offset, $address, $names);
}

# The offset of an address in a map: a virtual address if the file is here, else the offset in the
# file. With $is_named the profile has its name, so it does not matter if the file is missing.
sub offset_in {
	my ($range, $address, $is_named) = @_;
	my $offset = $address - $range->{start} + $range->{offset};
	my $object = $range->{object};
	my $elf = !$object->is_file ? undef : $is_named ? $object->found : $object->elf;
	return $elf ? $elf->vaddr_of_offset($offset) // $offset : $offset;
}

# Adds a place and returns its number; $names: those brought along, or undef.
sub new_place {
	my ($object, $offset, $address, $names) = @_;
	push @object, $object;
	push @offset, $offset;
	push @address, $address;
	push @given, $names;
	return $#object;
}

# Replaces the text of every stack of a dump by its places, as of_text() packs them; does nothing
# the second time.
sub number_stacks {
	my ($dump) = @_;
	return if $dump->{numbered}++;
	$_->[0] = of_text($dump, $_->[0]) for @{ $dump->{stacks} };
}

# The number of the place that stands for a stack without frames, which writers tell by no address
# or by 0x0 alone.
sub no_stack { return $number{"\0no stack"} //= new_place(undef, 0, 0, ['(no stack)']) }

# The places of one stack, leaf first, packed: the numbers as four bytes each, big-endian. All
# addresses but the first are return addresses; one less lies inside the call. A doubt if the stack
# is longer than DEEPEST; its outermost frames are dropped then. { numbers } of the dump keeps the
# numbers by text: of leaves, and of return addresses.
sub of_text {
	my ($dump, $text) = @_;
	my ($first, $later) = @{ $dump->{numbers} //= [{}, {}] };
	my ($leaf, @rest) = split ' ', $text;
	return pack 'N', no_stack() if !defined $leaf || !@rest && $leaf =~ /^(?:0x)?0+$/i;
	if (@rest >= DEEPEST) {
		Talk::doubt("$dump->{file}: a stack of " . (1 + @rest) . ' frames is cut to ' . DEEPEST);
		$#rest = DEEPEST - 2;
	}
	my $place = $first->{$leaf} //= number($dump, address($dump, $leaf));
	my @places = @$later{@rest};
	@places = map { $later->{$_} //= number($dump, before($dump, $_)) } @rest
	    if grep { !defined } @places;
	return pack 'N*', $place, @places;
}

# An address of a stack, hexadecimal with or without 0x, as a number; 0, and a doubt, if it is none.
sub address {
	my ($dump, $text) = @_;
	return hex $1 if $text =~ /^(?:0x)?([0-9a-f]{1,16})$/i;
	Talk::doubt("$dump->{file}: damaged: it has frames that are no addresses; they are shown as 0x0");
	return 0;
}

# The address of a stack less one, so that a return address lies inside the call; 0 stays.
sub before {
	my ($dump, $text) = @_;
	my $address = address($dump, $text);
	return $address ? $address - 1 : 0;
}
