# Source: --list and --disasm, sums beside source lines and instructions, of a view (Main::view).
# Callers: Main, Shell, Open.
package Source;

# (what Reduce::sum returns by address, then { name, flat, cum, file: undef if not known, lines: {
# line => { flat, cum } }, entries } of each routine (function) whose short name matches, sorted);
# fails if none does. Functions of one name, as static ones of two files, are told apart by what the
# sub $home returns of a frame and its place. A stack counts once in the cum of a routine or line,
# however often that recurs in it. --focus and --ignore have no effect.
sub line_sums {
	my ($view, $pattern, $home) = @_;
	my (%routine, @parts, @paths); # parts: by entry, its routine and its line
	my $option = { %{ $view->{option} }, focus => '', ignore => '' };
	my $sum = Reduce::sum($view->{stacks}, $option, grain => 'addresses',
		on_stack => sub { push @paths, [@_[0, 2]] });
	for my $entry (0 .. $#{ $sum->{label} }) {
		my $frame = $sum->{frame}[$entry];
		next unless $frame->{short} =~ $pattern;
		my $own = $routine{ join "\0", $frame->{short}, $home->($frame, $sum->{place}[$entry]) } //=
		    { name => $frame->{short}, flat => 0, cum => 0, file => undef, lines => {}, entries => [] };
		push @{ $own->{entries} }, $entry;
		$parts[$entry] = [$own];
		next unless defined $frame->{file};
		$own->{file} //= $frame->{file};
		push @{ $parts[$entry] },
		    $own->{lines}{ $frame->{line} || 0 } //= { flat => 0, cum => 0 };
	}
	Talk::fail(1, 'no routine matches') unless %routine;
	for (@paths) {
		my ($path, $value) = @$_;
		$_->{flat} += $value for @{ $parts[$path->[0]] // [] };
		my %met;
		$met{$_}++ or $_->{cum} += $value for map { @{ $parts[$_] // [] } } @$path;
	}
	return ($sum, map { $routine{$_} } sort keys %routine);
}

# Prints the source lines of routines that match.
sub list {
	my ($view, $regexp) = @_;
	my ($sum, @routines) = line_sums($view, Reduce::pattern($regexp) // qr//,
		sub { $_[0]{file} // '' });
	my $option = $view->{option};
	print Print::total_line($sum, $option, $view->{tag});
	for my $routine (@routines) {
		printf "ROUTINE ====================== %s in %s\n%6s %6s Total %s (flat / cumulative)\n",
		    $routine->{name},
		    $routine->{file} // '??', Print::amount($routine->{flat}, $option),
		    Print::amount($routine->{cum}, $option), Print::unit($option);
		if (!defined $routine->{file}) {
			Talk::doubt("$routine->{name}: no line information");
			next;
		}
		list_lines($routine, $option);
	}
}

# Prints the source lines of one routine, from 5 before the first that holds something to 5 after
# the last; a doubt if its file cannot be read, or has not so many lines.
sub list_lines {
	my ($routine, $option) = @_;
	my $file = $routine->{file};
	return Talk::doubt("$file: is no regular file") if -e $file && !-f _;
	open(my $fh, '<', $file) or return Talk::doubt("$file: $!");
	chomp(my @source = <$fh>);
	my @hit = sort { $a <=> $b } grep { $_ > 0 } keys %{ $routine->{lines} };
	my $first = @hit && $hit[0] > 5 ? $hit[0] - 5 : 1;
	my $last = @hit ? $hit[-1] + 5 : 0;
	Talk::doubt("$file: is another version: it has no line $hit[-1]") if @hit && $hit[-1] > @source;
	$last = @source if $last > @source;
	for my $line ($first .. $last) {
		my $cell = $routine->{lines}{$line};
		printf "%6s %6s %4d: %s\n", $cell && $cell->{flat} ? Print::amount($cell->{flat}, $option) : '.',
		    $cell ? Print::amount($cell->{cum}, $option) : '.', $line, $source[$line - 1];
	}
}

# Prints the instructions of routines that match; fails without objdump.
sub disasm {
	my ($view, $regexp) = @_;
	my $objdump = Tool::find('objdump')
	    or Talk::fail(1, '--disasm needs objdump (package binutils), which is not installed');
	my ($sum, @routines) = line_sums($view, Reduce::pattern($regexp) // qr//, \&instructions);
	my $option = $view->{option};
	print Print::total_line($sum, $option, $view->{tag});
	for my $routine (@routines) {
		printf "ROUTINE ====================== %s\n%6s %6s %s (flat, cumulative) %s of total\n",
		    $routine->{name},
		    Print::amount($routine->{flat}, $option), Print::amount($routine->{cum}, $option),
		    Print::unit($option),
		    Print::percent($routine->{cum}, $sum->{total});
		disasm_routine($objdump, $sum, $routine, $option);
	}
}

# Where the instructions of a frame are, as a text: its object and the symbol that has its place.
sub instructions {
	my (undef, $place) = @_;
	my $object = $Places::object[$place];
	return join "\0", $object ? $object->{path} : '', $Names::frames[$place][-1]{raw} // '';
}

# Prints the instructions of one routine of line_sums(), all of one object and symbol, each sum
# beside the instruction that holds its address; a doubt if that file is not here or objdump fails.
sub disasm_routine {
	my ($objdump, $sum, $routine, $option) = @_;
	my $place = $sum->{place}[$routine->{entries}[0]];
	my $object = $Places::object[$place];
	my $raw = $Names::frames[$place][-1]{raw};
	my $elf = $object && $object->elf;
	return Talk::doubt("$routine->{name}: no instructions: the object file is missing") unless $elf;
	return Talk::doubt("$routine->{name}: no instructions: the place has no symbol") unless defined $raw;
	my $text = Tool::filter([$objdump, '-d', '-l', '--no-show-raw-insn', "--disassemble=$raw",
			$elf->{path}], '') // return Talk::doubt("$elf->{path}: objdump failed: no instructions");
	my @hits = sort { $a->[0] <=> $b->[0] } map { [$Places::offset[$sum->{place}[$_]], $_] }
	    grep { $Places::object[$sum->{place}[$_]] == $object } @{ $routine->{entries} };
	my @lines = split /\n/, $text;
	my @starts = map { /^\s*([0-9a-f]+):\s/ ? hex $1 : undef } @lines;
	Talk::doubt("$elf->{path}: no instructions: it has no symbol $raw (stripped?)") if !grep { defined } @starts;
	my $next;
	my @ends = reverse map { my $end = $next; $next = $_ if defined; $end } reverse @starts;
	for my $at (0 .. $#lines) {
		next unless defined $starts[$at] || $lines[$at] =~ m{^/};
		my @mine = grep { defined $starts[$at] && $_->[0] >= $starts[$at]
			    && (!defined $ends[$at] || $_->[0] < $ends[$at]) } @hits;
		my ($flat, $cum) = (0, 0);
		$flat += $sum->{flat}[$_->[1]] // 0, $cum += $sum->{cum}[$_->[1]] // 0 for @mine;
		printf "%6s %6s %s\n", $flat ? Print::amount($flat, $option) : '.',
		    @mine ? Print::amount($cum, $option) : '.', $lines[$at];
	}
}
