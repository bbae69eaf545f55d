# Pack: profiles and what names them in one file, to be read where neither the program nor its
# libraries are. Each object whose file is here is in it as a small ELF file: the segments, the
# build-id and the functions of its symbol table; and with the source lines of the calls that the
# profiles hold, if a tool knew them. A pack FILE.jepack is read like its profiles, which are called
# FILE.jepack/NAME. Form, gzipped where gzip is: a line "jeprof_pack/1"; parts, each a line "part
# KIND LENGTH NAME" and as many bytes and a line end, where KIND is dump (NAME: of the profile), elf
# or lines (NAME: the pack_key() of the object, % and blanks in it as %xx, a blank, its path); a line
# "end COUNT" of parts. A part of lines has for each frame, innermost first, a line of four words
# between tabs: offset in hex, function, file, line. Callers: Main (command, expand), Input (member);
# Object and Names read %lines, Dump and Doctor MAGIC; the symbols go to %Object::packed.
package Pack;

use constant MAGIC => "jeprof_pack/1\n";

my %packs; # path -> { names: of its profiles, in order, dumps: name -> text }
our (%lines); # pack_key() of an object -> { offset => [[function, file, line], ...] }

# ---- reading ----
# The arguments, each pack replaced by the paths PACK/NAME of its profiles.
sub expand {
	my @arguments = @_;
	return map { my $path = $_; is_pack($path) ? map { "$path/$_" } @{ load($path)->{names} }
		    : $path } @arguments;
}

# Whether a path is the file of a pack, by its beginning; of a compressed one by its suffix. 0 for
# standard input, "-".
sub is_pack {
	my ($path) = @_;
	return 0 if $path eq '-' || !-f $path || !open my $fh, '<:raw', $path;
	read $fh, my $head, length MAGIC;
	return ($head // '') eq MAGIC || Input::has_suffix($path, 'jepack')
	    && defined Input::packer_of($head // '') ? 1 : 0;
}

# The text of the profile PACK/NAME; undef if that is no such path. Fails if the pack has no such
# profile. A pack whose name does not end in .jepack is known only after expand().
sub member {
	my ($path) = @_;
	my ($file) = grep { index($path, "$_/") == 0 } keys %packs;
	$file //= $1 if $path =~ m{^(.*?\.jepack(?:\.\w+)?)/.}s;
	return undef unless defined $file && ($packs{$file} || is_pack($file));
	my $name = substr $path, 1 + length $file;
	return load($file)->{dumps}{$name} // Talk::fail(1, "$file: holds no profile $name");
}

# A pack as in %packs; its symbols go to %Object::packed, its lines to %lines. Read once.
sub load {
	my ($path) = @_;
	return $packs{$path} //= parse($path, Input::unpacked($path, Input::slurp($path)));
}

# Makes a pack of the text of the file $path; fails if it is none or holds no profile. A doubt if it
# is damaged: parts after the damage are not read.
sub parse {
	my ($path, $text) = @_;
	my $self = { names => [], dumps => {} };
	Talk::fail(1, "$path: not a pack of jeprof") unless substr($text, 0, length MAGIC) eq MAGIC;
	pos($text) = length MAGIC;
	my $count = 0;
	while ($text =~ /\Gpart (dump|elf|lines) (\d{1,15}) ([^\n]*)\n/gc) {
		my ($kind, $length, $name) = ($1, $2, $3);
		last if $length > length($text) - pos $text;
		take_part($self, $path, $kind, $name, substr $text, pos $text, $length);
		pos($text) += $length;
		$count++;
		last unless $text =~ /\G\n/gc;
	}
	my $is_whole = $text =~ /\Gend $count\n\z/gc;
	Talk::fail(1, $is_whole ? "$path: holds no profile" : "$path: truncated or damaged after $count "
		    . 'parts; there is no whole profile before that') unless @{ $self->{names} };
	Talk::doubt("$path: truncated or damaged after $count parts; what is there is shown")
	    unless $is_whole;
	return $self;
}

# Takes one part: a profile into $self, symbols and lines into their tables. Of profiles with one
# name, of symbols with one key, and of the lines of one offset of it, the last counts.
sub take_part {
	my ($self, $path, $kind, $name, $data) = @_;
	if ($kind eq 'dump') {
		push @{ $self->{names} }, $name unless defined $self->{dumps}{$name};
		return $self->{dumps}{$name} = $data;
	}
	my ($key, $file) = $name =~ /^(\S+) (.*)$/ or return;
	$key =~ s/%([0-9a-f]{2})/chr hex $1/ge;
	if ($kind eq 'elf') {
		my $elf = Elf::of_text($file, $data);
		return $elf ? $Object::packed{$key} = $elf
		    : Talk::doubt("$path: the symbols of $file are damaged");
	}
	my %frames;
	for my $line (split /\n/, $data) {
		my ($offset, $function, $source, $number) = split /\t/, $line, -1;
		push @{ $frames{ hex $offset } }, [$function, $source, $number]
		    if ($offset // '') =~ /^[0-9a-f]{1,16}$/ && ($number // '') =~ /^\d+$/;
	}
	@{ $lines{$key} }{ keys %frames } = values %frames;
}

# ---- making ----
# The verb: packs the given profiles; if none is given, the newest series of this directory.
sub command {
	my ($option, @files) = @_;
	Main::take_program(\@files) if @files;
	my @all = Series::all_files(@files);
	my @texts = map { Input::unpacked($_, Input::slurp($_)) } @all;
	my @dumps = map { Dump::read_file($all[$_], $texts[$_]) } 0 .. $#all;
	Places::number_stacks($_) for @dumps;
	Names::resolve(Main::wants_lines({ %$option, takes_lines => 1 }));
	my @parts = dump_parts(\@all, \@texts);
	push @parts, object_parts($_) for Missing::objects();
	my $text = MAGIC . join('', map { sprintf "part %s %d %s\n%s\n", $_->[0], length $_->[2],
			    @$_[1, 2] } @parts) . sprintf "end %d\n", scalar @parts;
	my $gzip = Tool::find('gzip');
	my $packed = $gzip ? Tool::filter([$gzip, '-nc'], $text) : undef;
	put($option, $all[-1], $packed // $text);
	Missing::tell();
}

# Writes the pack $text: to the file of -o; to stdout with "-o -", and without -o if stdout is no
# terminal; else to a file in this directory that is named after the profile $from. Fails with
# status 2 if the name does not end in .jepack, or in that and a suffix of compression.
sub put {
	my ($option, $from, $text) = @_;
	return if Writing::try_stdout($option, $text);
	my $file = length $option->{o} ? $option->{o}
	    : Input::plain_name(Object::base_name(Series::stem($from))) . '.jepack';
	Talk::fail(2, "$file: the name of a pack ends in .jepack")
	    unless Input::has_suffix($file, 'jepack');
	Writing::file($file, $text);
	Writing::made($option, $file, Talk::name() . ' top ' . Talk::word($file =~ s{^-}{./-}r),
		', on any machine');
}

# The parts [dump, NAME, text] of these files and their texts; a name that is there already gets a
# number before it, "2/NAME". NAME has no directory and no suffix of compression.
sub dump_parts {
	my ($files, $texts) = @_;
	my %seen;
	return map {
		my $name = Input::without_packed(Object::base_name($files->[$_])) =~ tr/\n/?/r;
		$name = 'stdin.heap' if $name eq '-';
		my $number = ++$seen{$name};
		$name = "$number/$name" if $number > 1;
		['dump', $name, $texts->[$_]];
	} 0 .. $#$files;
}

# The parts elf and lines of an object that Missing::objects gives; none if its file is not here.
sub object_parts {
	my ($own) = @_;
	my $object = $own->{object};
	my $elf = $object->elf or return;
	my $name = $object->pack_key =~ s/([%\s])/sprintf '%%%02x', ord $1/ger . ' '
	    . $object->{path} =~ tr/\n/?/r;
	my @parts = ['elf', $name, $elf->summary($object->symbol_elf)];
	my $found = Names::found_lines($object, map { $Places::offset[$_] } @{ $own->{places} });
	my $text = '';
	for my $offset (sort { $a <=> $b } keys %$found) {
		$text .= join '', map { sprintf "%x\t%s\n", $offset, join "\t",
			    map { Talk::clean($_) } $_->[0], $_->[1],
			    $_->[2] =~ /^\d+$/ ? $_->[2] : 0 } @{ $found->{$offset} };
	}
	push @parts, ['lines', $name, $text] if length $text;
	return @parts;
}
