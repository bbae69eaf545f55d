# Names: each place gets a list of frames, innermost first (more than one where calls were inlined).
# A frame is { raw, full, short, is_bare }, and { file, line } if a tool told lines. raw: the
# symbol, or the name that the profile brought along; full: raw demangled; short: full without
# parameters and templates. Where no program demangles, full is the short form too. is_bare: no name
# is known, and raw is undef. full and short are then OBJECT+OFFSET or the address; of a frame
# inlined in a function with a name, they are that name (use_lines).
# A place is (object, offset), told by its number (Places). Callers, after Places has numbered the
# stacks: Main, Series, Report, Live, Frag and Pack (resolve), Series (drop_inlined), Report
# (lines_of), Pack (found_lines); Main (line_tools). Reduce and all that print names read @frames.
package Names;

use constant DEEPEST => 16; # types of Rust in one another: each is a pass through a name
use constant { LONGEST_FULL => 1 << 20, ALL_FULL => 1 << 26 }; # bytes of one, all demangled names

our @frames; # place => its list of frames
our $tells_files = 0; # set by --debug: say in notes which file gave names and lines
my %by_object; # object key -> its places for which add_lines() has not asked yet
my $named = 0; # all places below have frames
my (@plain, @lined); # place => its frames without lines and with them, where a tool told lines

# Names all places that have no frames yet; with $want_lines also adds files, lines and inlined
# calls, without it frames have none, whatever was asked for before.
sub resolve {
	my ($want_lines) = @_;
	my %fresh;
	my @new = grep { !$frames[$_] } $named .. $#Places::object;
	$named = @Places::object;
	for my $place (@new) {
		my $object = $Places::object[$place];
		if ($Places::given[$place]) {
			$frames[$place] = [map { given_frame($_) } @{ $Places::given[$place] }];
		} elsif ($object && $object->is_file) {
			push @{ $fresh{ $object->{key} } }, $place;
		} else {
			$frames[$place] = [{ full => unnamed($place), is_bare => 1 }];
		}
	}
	for my $key (sort keys %fresh) {
		name_object($Object::by_key{$key}, $fresh{$key});
		push @{ $by_object{$key} }, @{ $fresh{$key} };
	}
	demangle(@new);
	add_lines() if $want_lines;
	my $wanted = $want_lines ? \@lined : \@plain;
	$frames[$_] = $wanted->[$_] for grep { $wanted->[$_] } 0 .. $#$wanted;
}

# What tells a name of C++, Rust or Go, and the names that compilers make, from those of interpreters:
# "f (a.py:1)", "GET /a" and "slot[1]" have no short form.
my $compiled = qr/^_+[ZR]|\boperator\b|\[(?:abi:|clone )|\.(?:isra|constprop|part|cold|lto_priv|localalias|llvm)\b
    |^(?!.*[ ]\((?!\.)[^()]*\)$).*(?:::|\S[(<])/x;

# The frame of a name that the profile brought along. "0xADDRESS" and "ANYTHING+0xOFFSET" count as
# no name.
sub given_frame {
	my ($name) = @_;
	return $name =~ /(?:^|\+)0x[0-9a-fA-F]+$/ ? { full => $name, is_bare => 1 }
	    : { raw => $name, full => $name, $name =~ $compiled ? () : (short => $name) };
}

# Removes the inlined frames of places that were named by the profile itself. So they compare with
# places that got their names from symbols, which have one frame each unless lines were asked for.
sub drop_inlined {
	for my $place (grep { $Places::given[$_] } 0 .. $#frames) {
		$frames[$place] = [$frames[$place][-1]];
	}
}

# What stands for the name of a place without one.
sub unnamed {
	my ($place) = @_;
	my $object = $Places::object[$place];
	return sprintf '%s+0x%x', $object->title, $Places::offset[$place] if $object;
	return sprintf '0x%x', $Places::address[$place];
}

# Sets the frames of places of one Object, by its symbols.
sub name_object {
	my ($object, $places) = @_;
	my $elf = $object->symbol_elf;
	Talk::note($object->title . ': ' . ($elf ? "names from $elf->{path}" : 'no file, no names'))
	    if $tells_files;
	my $names = $elf ? $elf->names_for(map { $Places::offset[$_] } @$places) : {};
	for my $place (@$places) {
		my $name = $names->{ $Places::offset[$place] };
		$frames[$place] = [defined $name ? { raw => $name, full => $name }
			: { full => unnamed($place), is_bare => 1 }];
	}
}

# Sets full and short of the frames of these places that have no short name yet. Demangles by one run of c++filt or
# llvm-cxxfilt. Without them, if they fail, or for a name that they leave as it is or make too long,
# Cxx gives the short form, which is then full too.
sub demangle {
	my @places = @_;
	my %plain;
	my @fresh = grep { !defined $_->{short} } map { @$_ } @frames[@places];
	for my $frame (@fresh) {
		$plain{ $frame->{raw} } = undef if ($frame->{raw} // '') =~ /^_+[ZR]/;
	}
	my @mangled = sort keys %plain;
	if (@mangled) {
		my $tool = Tool::find('c++filt') || Tool::find('llvm-cxxfilt');
		my $text = $tool ? Tool::filter(Tool::limited($tool), join('', map { "$_\n" } @mangled), ALL_FULL) : undef;
		my @names = split /\n/, $text // '';
		@plain{@mangled} = @names if @names == @mangled;
		for my $name (@mangled) {
			my $full = $plain{$name} // $name;
			$plain{$name} = Cxx::short($name) if $full eq $name || length $full > LONGEST_FULL;
		}
	}
	for my $frame (@fresh) {
		my $name = defined $frame->{raw} ? $plain{ $frame->{raw} } : undef;
		$frame->{full} = $name if defined $name;
		$frame->{short} = $frame->{is_bare} ? $frame->{full} : shorten($frame->{full});
	}
}

my %shortened;

# The short form of a demangled name, found once.
sub shorten {
	my ($name) = @_;
	return $shortened{$name} //= shorten_once($name);
}

# A name without parameters, template arguments, return type and what compilers append.
sub shorten_once {
	my ($name) = @_;
	my $text = $name;
	$text =~ s/(?:\.(?:isra|constprop|part|cold|lto_priv|localalias|llvm)(?:\.\d+)?)+$//;
	# Rust: the hash that older names end in, and escapes of letters, which demanglers leave there.
	$text = Cxx::unescaped($text) if $text =~ s/::h[0-9a-f]{16}$// && $text =~ /\$u/;
	$text =~ s/(?<=\w)\[[0-9a-f]{1,16}\]//g; # Rust: the hashes of crates in newer names
	my $whole = length $text ? $text : $name;
	for (1 .. DEEPEST) { $text = of_type($text) // last }
	return length $text ? $text : $name unless $text =~ /[(<\[ ]/;
	$text =~ s/ \[clone [^\]]*\]//g;
	$text =~ s/\[abi:\w+\]|::\{default arg#\d+\}//g;
	$text =~ s/\(anonymous namespace\)/\x01/g;
	$text =~ s/\boperator(\(\)|<=>|<<=?|>>=?|->\*?|<=?|>=?)(?: (?=<))?/my $sign = $1; $sign =~ tr{()<>}{\x02\x03\x04\x05}; "operator$sign"/ge;
	$text =~ s/->/-\x05/g;
	$text =~ s/\.\((\*[^()]*)\)(?=\.)/.\x02$1\x03/g; # Go: package.(*Type).Method
	$text =~ s/::(?=<)//g; # Rust: name::<Type>
	$text = cut_pairs($text, '<', '>');
	$text =~ s/;[^\[\];]*\]/]/g; # Rust: [Type; 4]
	$text =~ s/\{unnamed type#(\d+)\}/{unnamed#$1}/g;
	$text =~ s/\{lambda\([^{}]*\)#(\d+)\}/{lambda#$1}/g;
	my $is_round = $text =~ s/^[^()]* (?:\([^()*& ]*[*&]+)+(?=[^()*&\s])//; # int (*f(char))(long)
	$text = cut_pairs($text, '(', ')');
	$text =~ s/\)| \[\d*\]//g if $is_round;
	$text =~ s{ (?:(?:const|volatile|noexcept)\b|&&?)}{}g;
	if ($text =~ /\boperator(?:"")? /) { # names that have a space themselves, as operator new
		$text =~ s/^.*?\s(?=\S*\boperator(?:"")? )//;
	} else {
		$text =~ s/^.*\s(?=\S)//;
	}
	$text =~ tr/\x02\x03\x04\x05/()<>/;
	$text =~ s/\x01/(anonymous namespace)/g;
	$text =~ s/\s+$//;
	return $text =~ /^(?:::|$|decltype$)/ ? $whole : $text;
}

# A text without all pairs of these brackets and their contents; a bracket without partner stays. Its
# time does not grow faster than the text, which may be a forged one.
sub cut_pairs {
	my ($text, $open, $close) = @_;
	my (@parts, @starts); # what is left, and where in it a pair may begin
	for my $part (split /([\Q$open$close\E])/, $text) {
		if ($part eq $close && @starts) {
			$#parts = pop(@starts) - 1;
			next;
		}
		push @starts, scalar @parts if $part eq $open;
		push @parts, $part;
	}
	return join '', @parts;
}

# <Type as Trait>::method and <Type>::method of Rust as Type::method; of dyn A + B, A stays. undef for
# another name.
sub of_type {
	my ($text) = @_;
	return undef unless $text =~ /^</;
	my ($depth, $end) = (0);
	while ($text =~ /->|([<>])|( as | ?\+)/g) {
		my ($at, $bracket) = ($-[0], $1 // '');
		$end //= $at if defined $2 && $depth == 1;
		$depth += $bracket eq '<' ? 1 : $bracket eq '>' ? -1 : 0;
		next if $depth;
		return undef if substr($text, $at, 3) ne '>::';
		return substr($text, 1, ($end // $at) - 1) . substr $text, $at + 1;
	}
	return undef;
}

# ---- lines: by the first of these programs that is there and answers ----
my @tools = qw(jeprof-symbolize llvm-symbolizer addr2line);
our $engine = ''; # the one that answered last
# path -> answers() of jeprof-symbolize: each ask_all() runs it once for all of its objects
my %told;
my %is_package; # path -> 1: its split units are in a file PATH.dwp, which llvm-symbolizer reads

# The programs among @tools that are there.
sub line_tools { return grep { Tool::find($_) } @tools }

# Adds file and line, and inlined frames, to all places in objects that are files, but not to those
# that the profile has named, if it has not done so before. A doubt (a message that makes the exit
# code 3), and no more, if there is neither a program that tells lines nor a pack with some.
sub add_lines {
	return Talk::doubt_names('no file names and lines: neither jeprof-symbolize nor llvm-symbolizer nor addr2line is installed')
	    unless %Pack::lines || line_tools();
	my @keys = sort keys %by_object;
	ask_all(map { [$Object::by_key{$_}, $by_object{$_}] } @keys);
	my @asked = map { @$_ } values %by_object;
	for my $key (@keys) {
		my $places = delete $by_object{$key};
		my $found = found_lines($Object::by_key{$key}, map { $Places::offset[$_] } @$places);
		use_lines($_, $found->{ $Places::offset[$_] }) for @$places;
	}
	demangle(@asked);
}

# { place => [file, line] } of the outermost frame of each of these places, for the few stacks that
# a report shows in full; changes no frames. Places whose line is not found, and those that the
# profile has named, are not in it.
sub lines_of {
	my @places = @_;
	my (%by_key, %line);
	for my $place (@places) {
		my $object = $Places::object[$place];
		push @{ $by_key{ $object->{key} } }, $place
		    if $object && $object->is_file && !$Places::given[$place];
	}
	ask_all(map { [$Object::by_key{$_}, $by_key{$_}] } sort keys %by_key);
	for my $key (sort keys %by_key) {
		my $found = found_lines($Object::by_key{$key},
			map { $Places::offset[$_] } @{ $by_key{$key} });
		for my $place (@{ $by_key{$key} }) {
			my $outer = ($found->{ $Places::offset[$place] } // [])->[-1] or next;
			$line{$place} = [Talk::clean($outer->[1]), $outer->[2]]
			    if $outer->[1] !~ /^\?\?/ && $outer->[2] =~ /^[1-9]/;
		}
	}
	return \%line;
}

# { offset => [[function, file, line], ...] } of one object, frames innermost first: of its pack,
# else by the first tool that is there and answers; where one has failed, as for sections whose
# compression it cannot undo, the next must know a file. Empty if there is no file with lines, no
# tool, or all fail (a doubt). The result may have offsets that were not asked for.
sub found_lines {
	my ($object, @offsets) = @_;
	my $packed = $object->packed_lines;
	return $packed if $packed;
	my $path = path_of_lines($object) // return {};
	return $told{$path} if $told{$path} && !grep { !$told{$path}{$_} } @offsets;
	my @there = line_tools();
	push @there, shift @there if $is_package{$path};
	for my $tool (@there) {
		my $found = answers(ask($tool, $path, @offsets) // next);
		next if $tool ne $there[0] && !grep { $_->[1] !~ /^\?\?/ } map { @$_ } values %$found;
		tell_engine($tool, $path);
		return $found;
	}
	Talk::doubt_names("$path: " . join(' and ', @there) . ' failed; its lines are missing') if @there;
	return {};
}

# The path of the file, not of a pack, that has the lines of an object; undef without one or a tool.
sub path_of_lines {
	my ($object) = @_;
	my $elf = line_tools() ? $object->line_elf : undef;
	return $elf && $elf->has_lines && !$elf->{text} ? $elf->{path} : undef;
}

# Asks jeprof-symbolize, if it is there, for the places of all [object, places] in one run; keeps
# the answers in %told.
sub ask_all {
	my $program = Tool::find($tools[0]) or return;
	my %input;
	for my $pair (@_) {
		my ($object, $places) = @$pair;
		my $path = $object->packed_lines ? undef : path_of_lines($object);
		$input{$path} .= join '', map { sprintf "0x%x\n", $Places::offset[$_] } @$places
		    if defined $path && $path !~ /\n/;
	}
	return unless %input;
	my $text = Tool::filter([$program], join '', map { "file $_\n$input{$_}" } sort keys %input)
	    // return;
	for my $part (split /^(?=file )/m, $text) {
		my ($path) = $part =~ /^file (.*)\n/ or next;
		next unless defined $input{$path};
		next if $part =~ s/^lacks (\d+) (.*)\n\z//m && is_elsewhere($path, $1, $2);
		%{ $told{$path} } = (%{ $told{$path} // {} }, %{ answers($part) });
		tell_engine($tools[0], $path);
	}
}

# Whether another tool is to be asked for a file with $count split units whose files, the first of
# which is $name, are not there: llvm-symbolizer, if they are in a package. Else says what lacks.
sub is_elsewhere {
	my ($path, $count, $name) = @_;
	my $more = $count > 1 ? ' and ' . ($count - 1) . ' more' : '';
	return $is_package{$path} = 1 if -e "$path.dwp" && Tool::find($tools[1]);
	Talk::note(-e "$path.dwp" ? "$path.dwp: only $tools[1] reads it, which is not installed; inlined calls are missing"
		: "$path: $name$more (-gsplit-dwarf) not there: inlined calls are missing; keep the files, or pack them by llvm-dwp -e $path -o $path.dwp");
	return 0;
}

# Remembers which tool gave lines.
sub tell_engine {
	my ($tool, $path) = @_;
	$engine = $tool;
	Talk::note("$path: lines by $tool") if $tells_files;
}

# What one of the tools says of these offsets in the file $path, as text; undef if it fails.
sub ask {
	my ($tool, $path, @offsets) = @_;
	my %command = (
		'jeprof-symbolize' => [],
		'llvm-symbolizer' => ['--print-address', '--no-demangle', '--inlines',
			'--functions=linkage', "--obj=$path"],
		'addr2line' => ['-a', '-f', '-i', '-e', $path],
	);
	my $head = $tool eq $tools[0] ? "file $path\n" : '';
	return undef if $head =~ tr/\n// > 1;
	return Tool::filter([Tool::find($tool), @{ $command{$tool} }], $head . join '',
		map { sprintf "0x%x\n", $_ } @offsets);
}

# The text of ask() as found_lines() returns it. All tools print the address, then a pair of lines
# for each frame: function, FILE:LINE.
sub answers {
	my ($text) = @_;
	my (%found, $current, $function);
	for my $line (split /\n/, $text) {
		if ($line =~ /^0x([0-9a-f]+)$/) {
			$current = $found{ hex $1 } = [];
			$function = undef;
		} elsif ($current && length $line) {
			if (defined $function) {
				push @$current, [$function,
					$line =~ /^(.*?):(\d+|\?)(?::\d+)?(?: \(discriminator \d+\))?$/ ? ($1, $2)
					: ($line, 0)];
				$function = undef;
			} else {
				$function = $line;
			}
		}
	}
	return \%found;
}

# Sets the frames of a place by what a tool found, if anything. The tool adds files, lines and
# inlined frames. The outermost frame keeps the name of the symbol; a bare one takes the name that
# the tool tells, but not that of a single frame without a file, which may be a guess.
sub use_lines {
	my ($place, $found) = @_;
	return unless $found && @$found;
	my $outer = $frames[$place][-1];
	my @list;
	for my $item (@$found) {
		my ($function, $file, $line) = @$item;
		my $known = $function ne '??' && (@$found > 1 || $file !~ m{^\?\?} || !$outer->{is_bare});
		my %frame = $known ? (raw => Talk::clean($function), full => Talk::clean($function))
		    : (full => $outer->{full}, is_bare => 1);
		$frame{file} = Talk::clean($file) if $file !~ /^\?\?/ && length $file;
		$frame{line} = $line =~ /^\d+$/ ? $line : 0;
		push @list, \%frame;
	}
	if (!$outer->{is_bare}) {
		@{ $list[-1] }{qw(raw full short is_bare)} = @$outer{qw(raw full short is_bare)};
	}
	$plain[$place] = $frames[$place];
	$frames[$place] = $lined[$place] = \@list;
}
