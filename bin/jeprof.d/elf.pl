# Elf: one object file: { path, fh, size, text: a reference to its bytes if a pack has it,
# wide: whether it has 64 bits, order: its byte order for pack (< or >), type, machine, segments: a
# list of { type, flags, offset, vaddr, filesz } }. open_file() opens a path once; the header and
# the segments are read then, sections and symbols when they are asked for. Nothing in the file is
# believed: what lies outside of it reads as ''. Offsets are in the file; offsets and sizes are in
# bytes. Callers: Object and Places, Names, Pack, Run, Whose, Doctor, Patient, Elsewhere, Fold,
# Missing.
package Elf;

# Numbers of the ELF format; SYM_CHUNK: how many symbols are read at a time; MINI_MAX: bytes of an
# unpacked .gnu_debugdata.
use constant { ET_REL => 1, ET_EXEC => 2, ET_CORE => 4, PT_LOAD => 1, PT_NOTE => 4, SHT_SYMTAB => 2, SHT_NOBITS => 8, SHT_DYNSYM => 11,
	SHF_EXECINSTR => 4,
	EM_ARM => 40, PF_X => 1, SYM_CHUNK => 8192, MINI_MAX => 1 << 28 };

my %opened; # path -> Elf, or 0 if it is none

# The Elf of a file; undef if it is none, not regular or cannot be opened. The answer is kept.
sub open_file {
	my ($path) = @_;
	$opened{$path} = load($path) || 0 unless exists $opened{$path};
	return $opened{$path} || undef;
}

# Opens a file and returns a new Elf; undef as open_file().
sub load {
	my ($path) = @_;
	return undef if index($path, "\0") >= 0;
	return undef unless -f $path && open(my $fh, '<:raw', $path);
	return parse(bless { path => $path, fh => $fh, size => -s $fh }, 'Elf');
}

# The Elf of a file whose bytes are in memory (a member of a pack); $path is its name. undef if it
# is none.
sub of_text {
	my ($path, $text) = @_;
	open(my $fh, '<:raw', \$text) or return undef;
	return parse(bless { path => $path, fh => $fh, text => \$text, size => length $text }, 'Elf');
}

# Reads header and segments; undef if it is no ELF file.
sub parse {
	my ($self) = @_;
	my $ident = $self->bytes(0, 64);
	return undef unless length $ident >= 52 && substr($ident, 0, 4) eq "\x7fELF";
	my ($class, $data) = unpack 'x4CC', $ident;
	return undef unless ($class == 1 || $class == 2) && ($data == 1 || $data == 2);
	$self->{wide} = $class == 2;
	$self->{order} = $data == 1 ? '<' : '>';
	return undef if $self->{wide} && length $ident < 64;
	$self->read_header($ident);
	$self->read_segments;
	return $self;
}

# At most $length bytes from $offset of the file on; fewer where the file ends.
sub bytes {
	my ($self, $offset, $length) = @_;
	return '' if $offset < 0 || $offset > $self->{size} || $length <= 0;
	my $rest = $self->{size} - $offset;
	$length = $rest if $length > $rest;
	my $data = '';
	seek($self->{fh}, $offset, 0) && read($self->{fh}, $data, $length);
	return $data;
}

# A template of pack for this file: S and L are 2 and 4 bytes as in Perl, A is an address (4 or 8
# bytes by class), all in the byte order of the file.
sub template {
	my ($self, $shape) = @_;
	my $address = $self->{wide} ? 'Q' : 'L';
	$shape =~ s/A/$address/g;
	$shape =~ s/([SLQ])/$1$self->{order}/g;
	return $shape;
}

# Reads the header from the first bytes of the file, $ident; counts that are too large for it stand
# in section 0.
sub read_header {
	my ($self, $ident) = @_;
	my @field = unpack $self->template('x16 SSL AAA LSSSSSS'), $ident;
	@$self{qw(type machine phoff shoff phentsize phnum shentsize shnum shstrndx)} =
	    @field[0, 1, 4, 5, 8 .. 12];
	return if !$self->{shoff} || !$self->{shentsize};
	my $first = $self->section_at(0) or return;
	$self->{shnum} = $first->{size} if $self->{shnum} == 0;
	$self->{shstrndx} = $first->{link} if $self->{shstrndx} == 0xffff;
	$self->{phnum} = $first->{info} if $self->{phnum} == 0xffff;
}

# Reads the segments.
sub read_segments {
	my ($self) = @_;
	my $size = $self->{phentsize};
	my $need = $self->{wide} ? 56 : 32;
	$self->{segments} = [];
	return if $size < $need;
	my $table = $self->bytes($self->{phoff}, $size * $self->{phnum});
	my $shape = $self->template($self->{wide} ? 'LL AAAAAA' : 'L AAAAA L A');
	my @order = $self->{wide} ? (0, 1, 2, 3, 5) : (0, 6, 1, 2, 4);
	for (my $at = 0; $at + $need <= length $table; $at += $size) {
		my %segment;
		@segment{qw(type flags offset vaddr filesz)} =
		    (unpack $shape, substr $table, $at, $need)[@order];
		push @{ $self->{segments} }, \%segment;
	}
}

# A section by its index: { name: where its name begins in the table of section names, type, flags,
# addr, offset, size, link, info, align, entsize }; undef if it is not there.
sub section_at {
	my ($self, $index) = @_;
	my $size = $self->{shentsize};
	my $need = $self->{wide} ? 64 : 40;
	my $raw = $self->bytes($self->{shoff} + $index * $size, $need);
	return undef if $size < $need || length $raw < $need;
	my %section;
	@section{qw(name type flags addr offset size link info align entsize)} =
	    unpack $self->template('LL AAAA LL AA'), $raw;
	return \%section;
}

# Where a section ends in the file, at the latest where the file does.
sub end_of {
	my ($self, $section) = @_;
	my $end = $section->{offset} + $section->{size};
	return $end < $self->{size} ? $end : $self->{size};
}

# All sections, as section_at() has them, with their names as { title } (of at most 64 bytes).
sub sections {
	my ($self) = @_;
	return $self->{sections} if $self->{sections};
	my @all;
	my $count = $self->{shoff} ? $self->{shnum} : 0; # up to 2**64 - 1, too many for a range of Perl's
	while (@all < $count) {
		my $section = $self->section_at(scalar @all) or last;
		push @all, $section;
	}
	my $strings = $all[$self->{shstrndx}];
	my $text = $strings ? $self->bytes($strings->{offset}, $strings->{size}) : '';
	for my $section (@all) {
		my $start = $section->{name};
		$section->{title} = $start < length $text ? unpack('Z*', substr $text, $start, 64) : '';
	}
	return $self->{sections} = \@all;
}

# The first section of this name whose type is not SHT_NOBITS; undef if there is none.
sub section {
	my ($self, $title) = @_;
	for my $section (@{ $self->sections }) {
		return $section if $section->{title} eq $title && $section->{type} != SHT_NOBITS;
	}
	return undef;
}

# The names of the objects that it is linked with (DT_NEEDED).
sub needed {
	my ($self) = @_;
	my $section = $self->section('.dynamic') or return;
	my $strings = $self->sections->[$section->{link}] or return;
	my @pairs = unpack $self->template('A') . '*', $self->bytes(@$section{qw(offset size)});
	my @found;
	while (my ($tag, $value) = splice @pairs, 0, 2) {
		last if $tag == 0;
		push @found, $self->string($strings->{offset} + $value) if $tag == 1;
	}
	return @found;
}

# Whether it has debug information that tells source lines.
sub has_lines {
	my ($self) = @_;
	return $self->section('.debug_line') || $self->section('.zdebug_line') ? 1 : 0;
}

# Whether it has a symbol table, not only that of exported symbols; that of mini() counts.
sub has_symtab {
	my ($self) = @_;
	my $elf = $self->mini // $self;
	return scalar grep { $_->{type} == SHT_SYMTAB && $_->{size} } @{ $elf->sections };
}

# The Elf in .gnu_debugdata, packed by xz, whose symbol table has the functions that are not exported:
# a stripped object of Fedora and its kin carries it. undef if there is none, if it cannot be read, or
# if the object has a symbol table itself.
sub mini {
	my ($self) = @_;
	return $self->{mini} if exists $self->{mini};
	$self->{mini} = undef;
	return undef if grep { $_->{type} == SHT_SYMTAB && $_->{size} } @{ $self->sections };
	my $section = $self->section('.gnu_debugdata') or return undef;
	my $tool = Tool::find('xz')
	    or return Talk::note("$self->{path}: xz is not installed, so its .gnu_debugdata is not read") // undef;
	my ($text, $is_whole) = Tool::output([$tool, '-dcq'], $self->bytes(@$section{qw(offset size)}), MINI_MAX);
	return $self->{mini} = $is_whole ? of_text($self->{path}, $text) : undef;
}

# The build-id in hex, '' if the file has none.
sub build_id {
	my ($self) = @_;
	return $self->{build_id} if defined $self->{build_id};
	my @places = map { [@$_{qw(offset filesz)}] } grep { $_->{type} == PT_NOTE } @{ $self->{segments} };
	my $section = $self->section('.note.gnu.build-id');
	push @places, [@$section{qw(offset size)}] if $section;
	for my $place (@places) { # one after the other: a damaged file may have many large ones
		my $id = $self->id_in_notes($self->bytes(@$place));
		return $self->{build_id} = $id if $id;
	}
	return $self->{build_id} = '';
}

# The build-id, in hex, among notes, $data (the bytes of a note segment or section); '' if there is
# none.
sub id_in_notes {
	my ($self, $data) = @_;
	my $at = 0;
	while ($at + 12 <= length $data) {
		my ($name_size, $size, $type) = unpack $self->template('LLL'), substr $data, $at, 12;
		my $body = $at + 12 + (($name_size + 3) & ~3);
		last if $body + $size > length $data;
		return unpack 'H*', substr $data, $body, $size
		    if $type == 3 && $name_size == 4 && substr($data, $at + 12, 4) eq "GNU\0";
		$at = $body + (($size + 3) & ~3);
	}
	return '';
}

# The file name in .gnu_debuglink, undef if there is none or it contains a slash.
sub debug_link {
	my ($self) = @_;
	my $section = $self->section('.gnu_debuglink') or return undef;
	my $name = unpack 'Z*', $self->bytes($section->{offset}, $section->{size});
	return length $name && $name !~ m{/} ? $name : undef;
}

# The virtual address of a file offset, undef where no loaded segment has it. A segment is taken to
# begin at the beginning of its page of 4 KiB; of two segments the one with code counts.
sub vaddr_of_offset {
	my ($self, $offset) = @_;
	my $best;
	for my $segment (grep { $_->{type} == PT_LOAD } @{ $self->{segments} }) {
		my $page = $segment->{offset} & ~0xfff;
		next if $offset < $page || $offset >= $segment->{offset} + $segment->{filesz};
		$best = $segment if !$best || $segment->{flags} & PF_X;
	}
	return $best ? $offset - $best->{offset} + $best->{vaddr} : undef;
}

# Whether a mapping of code at this file offset and of this length could be a code segment of this
# file, which the loader widens to whole pages (of 4 to 64 KiB).
sub fits_mapping {
	my ($self, $offset, $length) = @_;
	for my $segment (grep { $_->{type} == PT_LOAD && $_->{flags} & PF_X } @{ $self->{segments} }) {
		my $lead = $segment->{offset} - $offset;
		next if $lead < 0 || $lead > 0xffff;
		my $need = $lead + $segment->{filesz};
		return 1 if $length >= ($need & ~0xfff)
		    && $length <= (($need + 0xffff) & ~0xffff) + 0x10000;
	}
	return 0;
}

# { vaddr => raw name } for a list of virtual addresses: of functions that cover them, and where
# none does of labels. An address without a name is left out. The tables of exported symbols serve
# only for addresses that the full ones do not name, which may be in mini().
sub names_for {
	my ($self, @wanted) = @_;
	my %best;
	my $full = $self->mini // $self;
	for my $table ([$full, SHT_SYMTAB], [$self, SHT_DYNSYM]) {
		my ($elf, $type) = @$table;
		my @left = grep { !$best{$_} } @wanted;
		last unless @left;
		for my $section (grep { $_->{type} == $type } @{ $elf->sections }) {
			$elf->scan_symbols($section, \@left, \%best);
		}
	}
	my @left = grep { !$best{$_} } @wanted;
	my $labels = @left ? $full->labels_for(@left) : {};
	return { %$labels, map { $_ => $best{$_}{name} } keys %best };
}

# { vaddr => name } of addresses that no function covers, by labels, which have no size: code
# written in assembler has them. It is the last symbol up to the address in its section, if that is
# a label and starts in the page (4 KiB) of the address or the one before. Only of a whole symbol
# table: else there may be functions without a symbol in between.
sub labels_for {
	my ($self, @wanted) = @_;
	my @code = grep { $_->{flags} & SHF_EXECINSTR } @{ $self->sections };
	my %near; # address -> [start, size, name] of the last symbol before; [section start, 1]: none
	for my $section (grep { $_->{type} == SHT_SYMTAB } @{ $self->sections }) {
		for my $address (@wanted) {
			my ($home) = grep { $address >= $_->{addr}
				    && $address - $_->{addr} < $_->{size} } @code;
			$near{$address} //= [$home->{addr}, 1] if $home;
		}
		$self->scan_labels($section, \%near) if %near;
	}
	return { map { $_ => $near{$_}[2] } grep { defined $near{$_}[2] && !$near{$_}[1] } keys %near };
}

# Looks in one symbol table for the last symbol up to each address of %$near, and enters it there
# as [start, size, name]. The size is not 0 if a symbol with a size starts there too.
sub scan_labels {
	my ($self, $section, $near) = @_;
	my $strings = $self->sections->[$section->{link}] or return;
	my $entry = $self->{wide} ? 24 : 16;
	my $shape = $self->template($self->{wide} ? 'LCx1SQQ' : 'LLLCx1S');
	my $values = $self->template($self->{wide} ? '(x8Qx8)*' : '(x4Lx8)*');
	my %page = map { ($_ => 1, $_ - 1 => 1) } map { $_ >> 12 } keys %$near;
	my @sorted = sort { $a <=> $b } keys %$near;
	my $end = $self->end_of($section);
	for (my $at = $section->{offset}; $at < $end; $at += $entry * SYM_CHUNK) {
		my $left = ($end - $at) - ($end - $at) % $entry;
		my $chunk = $self->bytes($at, $left < $entry * SYM_CHUNK ? $left : $entry * SYM_CHUNK);
		my @value = unpack $values, $chunk;
		for my $i (grep { $page{ $value[$_] >> 12 } } 0 .. $#value) {
			my ($name, $info, $index, $start, $size) = $self->{wide}
			    ? unpack($shape, substr $chunk, $i * $entry, $entry)
			    : (unpack $shape, substr $chunk, $i * $entry, $entry)[0, 3, 4, 1, 2];
			next unless $index && $index < 0xff00 && ($info & 15) =~ /^(?:[012]|10)$/;
			$start &= ~1 if $self->{machine} == EM_ARM && ($info & 15) == 2;
			for my $address (grep { $_ >= $start && ($_ >> 12) - ($start >> 12) < 2
					    && $start >= $near->{$_}[0] } @sorted) {
				my $text = $self->string($strings->{offset} + $name);
				next unless $text =~ /^[^.\$]/; # marks of the assembler
				$near->{$address} = [$start, $size, $text]
				    if $start > $near->{$address}[0] || !defined $near->{$address}[2] || $size;
			}
		}
	}
}

# Reads one symbol table in large pieces and enters in %$best, address => symbol, the best that
# covers each address of @$wanted. Only symbols that start in the page (4 KiB) of an address or the
# one before, or have at least 4 KiB, are looked at: this test first, as it rejects nearly all.
sub scan_symbols {
	my ($self, $section, $wanted, $best) = @_;
	my $strings = $self->sections->[$section->{link}] or return;
	my $entry = $self->{wide} ? 24 : 16;
	my ($values, $sizes) = map { $self->template($_) } $self->{wide} ? ('(x8Qx8)*', '(x16Q)*')
	    : ('(x4Lx8)*', '(x8Lx4)*');
	my @sorted = sort { $a <=> $b } @$wanted;
	my %page = map { ($_ => 1, $_ - 1 => 1) } map { $_ >> 12 } @sorted; # or the page before
	my $end = $self->end_of($section);
	for (my $at = $section->{offset}; $at < $end; $at += $entry * SYM_CHUNK) {
		my $left = ($end - $at) - ($end - $at) % $entry;
		my $chunk = $self->bytes($at, $left < $entry * SYM_CHUNK ? $left : $entry * SYM_CHUNK);
		my @value = unpack $values, $chunk;
		my @size = unpack $sizes, $chunk;
		for my $i (grep { $page{ $value[$_] >> 12 } || $size[$_] > 4095 } 0 .. $#value) {
			my $symbol = $self->symbol(substr $chunk, $i * $entry, $entry) or next;
			$symbol->{text} += $strings->{offset};
			$self->offer(\@sorted, $best, $symbol);
		}
	}
}

# One entry of a symbol table, given as bytes, if it is a function that has a size and is defined in
# this file: { start, size, bind, text: offset of its name in the string table }; else undef.
sub symbol {
	my ($self, $raw) = @_;
	my $shape = $self->{symbol_shape} //= $self->template($self->{wide} ? 'LCx1SQQ' : 'LLLCx1S');
	my ($name, $info, $index, $start, $size) = $self->{wide} ? unpack($shape, $raw)
	    : (unpack $shape, $raw)[0, 3, 4, 1, 2];
	my $kind = $info & 15;
	return undef unless ($kind == 2 || $kind == 10) && $size && $index;
	$start &= ~1 if $self->{machine} == EM_ARM; # the mark of Thumb code
	return { start => $start, size => $size, bind => $info >> 4, text => $name };
}

# Enters a symbol in %$best for every address of @$sorted that it covers, if it is better than the
# one that is there. Its { text } must be an offset in the file.
sub offer {
	my ($self, $sorted, $best, $symbol) = @_;
	my ($low, $high) = (0, scalar @$sorted);
	while ($low < $high) {
		my $middle = ($low + $high) >> 1;
		if ($sorted->[$middle] < $symbol->{start}) { $low = $middle + 1 } else { $high = $middle }
	}
	for (; $low < @$sorted && $sorted->[$low] - $symbol->{start} < $symbol->{size}; $low++) {
		$symbol->{name} //= $self->string($symbol->{text});
		last unless length $symbol->{name};
		my $address = $sorted->[$low];
		$best->{$address} = $symbol if !$best->{$address} || is_better($symbol, $best->{$address});
	}
}

# Whether $new rather than $old, which both cover an address, names it: the one with the smaller
# size, then with fewer underscores before its name (that of _Z does not count), then one that is
# not local, then the shorter name, then the first in the alphabet.
sub is_better {
	my ($new, $old) = @_;
	return $new->{size} < $old->{size} if $new->{size} != $old->{size};
	my ($new_bars, $old_bars) = map { my ($bars) = $_->{name} =~ /^(_*)(?!Z)/;
		length($bars // '') } $new, $old;
	return $new_bars < $old_bars if $new_bars != $old_bars;
	return $new->{bind} > $old->{bind} if ($new->{bind} == 0) != ($old->{bind} == 0);
	return length $new->{name} < length $old->{name} if length $new->{name} != length $old->{name};
	return $new->{name} lt $old->{name};
}

# A small ELF file, as bytes, with what gives addresses in functions their names: loaded segments
# (without their contents), the build-id, and the functions of the symbol tables of $from, which is
# the Elf of this file or of the file with its symbols. Labels (see labels_for) are left out.
sub summary {
	my ($self, $from) = @_;
	my ($symbols, $strings) = $from->functions;
	my $id = $self->build_id;
	my $note = length $id ? pack($self->template('LLL'), 4, length($id) / 2, 3) . "GNU\0"
	    . pack 'H*', $id : '';
	$note .= "\0" x (-length($note) % 4);
	my @sections = (['', 0, '', 0], ['.note.gnu.build-id', 7, $note, 0],
		['.symtab', SHT_SYMTAB, $symbols, 3], ['.strtab', 3, $strings, 0]);
	my @load = grep { $_->{type} == PT_LOAD } @{ $self->{segments} };
	my $wide = $self->{wide};
	my ($header, $entry, $row) = $wide ? (64, 56, 64) : (52, 32, 40);
	my $names = join('', map { "$_->[0]\0" } @sections) . ".shstrtab\0";
	push @sections, ['.shstrtab', 3, $names, 0];
	my $start = $header + $entry * @load;
	my ($body, $table, $title) = ('', '', 0);
	for my $section (@sections) {
		$table .= pack $self->template('LLAAAALLAA'), $title, $section->[1], 0, 0,
		    $start + length $body, length $section->[2], $section->[3], 0, 1,
		    $section->[1] == SHT_SYMTAB ? ($wide ? 24 : 16) : 0;
		$title += 1 + length $section->[0];
		$body .= $section->[2];
	}
	my $head = "\x7fELF" . pack('CCC', $wide ? 2 : 1, $self->{order} eq '<' ? 1 : 2, 1) . "\0" x 9
	    . pack $self->template('SSLAAALSSSSSS'), $self->{type}, $self->{machine}, 1, 0, $header,
	    $start + length $body, 0, $header, $entry, scalar @load, $row, scalar @sections,
	    $#sections;
	return $head . join('', map { $self->segment_entry($_) } @load) . $body . $table;
}

# The entry of a loaded segment in what summary() makes, as bytes.
sub segment_entry {
	my ($self, $segment) = @_;
	my ($flags, $offset, $vaddr, $size) = @$segment{qw(flags offset vaddr filesz)};
	return $self->{wide} ? pack($self->template('LLQQQQQQ'), PT_LOAD, $flags, $offset, $vaddr,
		$vaddr, $size, $size, 0)
	    : pack $self->template('LLLLLLLL'), PT_LOAD, $offset, $vaddr, $vaddr, $size, $size, $flags,
	    0;
}

# (symbols, strings): the bytes of a symbol table and of its string table, in the form of this file,
# that have all functions with a size of its own tables, each once.
sub functions {
	my ($self) = @_;
	my $entry = $self->{wide} ? 24 : 16;
	my ($symbols, $strings, %seen) = ("\0" x $entry, "\0");
	for my $table (map { my $elf = $_; map { [$elf, $_] } @{ $elf->sections } } $self->mini // (), $self) {
		my ($elf, $section) = @$table;
		next unless $section->{type} == SHT_SYMTAB || $section->{type} == SHT_DYNSYM;
		my $names = $elf->sections->[$section->{link}] or next;
		my $text = $elf->bytes($names->{offset}, $names->{size});
		my $data = $elf->bytes($section->{offset}, $section->{size});
		for (my $at = 0; $at + $entry <= length $data; $at += $entry) {
			my $raw = substr $data, $at, $entry;
			my $symbol = $self->symbol($raw) or next;
			my $name = $symbol->{text} < length $text ? unpack 'Z*', substr $text, $symbol->{text},
			    4096 : '';
			next if !length $name || $seen{ substr($raw, 4) . $name }++;
			$symbols .= pack($self->template('L'), length $strings) . substr $raw, 4;
			$strings .= "$name\0";
		}
	}
	return ($symbols, $strings);
}

# The string at an offset of the file, without the version of a symbol ("@..."), cleaned for print.
sub string {
	my ($self, $offset) = @_;
	my ($text, $step) = ('', 256);
	while (1) {
		my $piece = $self->bytes($offset + length $text, $step);
		my $zero = index $piece, "\0";
		$text .= $zero < 0 ? $piece : substr $piece, 0, $zero;
		last if $zero >= 0 || length $piece < $step;
		$step = 65536;
	}
	$text =~ s/(?<=.)@.*//s; # symbol versions
	return Talk::clean($text);
}
