# Shell: the interactive mode: commands on standard input, answers on standard output. $work is what
# Main::load returns, with { only }: the number of the thread that alone is shown, undef for all.
# $option: the options of one command. Caller: Main.
package Shell;

my $help = <<'HELP';
Commands:
  top[N] [--cum] [-RE]      the N first lines (10), by flat or cumulative value; -RE leaves out stacks
  text[N] [--cum] [-RE]     the same, without N all lines
  list RE                   source lines of the routines that match
  disasm RE                 their instructions (needs objdump)
  callgrind FILE [RE]       writes the profile for callgrind_annotate and kcachegrind
  web [RE]                  a flame graph in a browser; gv, evince: the graph in that viewer (needs dot)
  weblist RE                the lines of list as a page in a browser
  tree [RE]                 who calls it: stacks that hold a matching routine, one per line
  help                      this list
  quit                      or end of input
Add --lines, --files, --functions, --addresses to top and text for a finer or coarser table.
--thread, --focus and --ignore of the command line last for all commands; the RE of callgrind, web,
gv, evince and tree takes the place of --focus, -RE is added to --ignore; list, disasm and weblist
heed --thread alone.
HELP

# Reads and does commands until "quit", "exit", "q" or the end of input. A failure of one is printed
# and ends nothing. Fails with status 2 for --thread=*.
sub run {
	my ($work) = @_;
	Threads::refuse_each($work->{option});
	($work->{only}) = Main::threads($work, $work->{option});
	print STDERR "Welcome to jeprof!  For help, type 'help'.\n";
	$| = 1;
	while (1) {
		print STDERR '(jeprof) ';
		my $line = next_line();
		last unless defined $line;
		last if $line =~ /^\s*(?:quit|exit|q\s*$)/;
		eval { command($work, $line); 1 } or complain($@);
	}
}

my $waiting = ''; # input that was read and not done yet: commands, and the beginning of one

# The next command, undef at the end of input. Read by sysread, past perl's own buffers: what they
# hold would be put back (by lseek) into the input of every tool that is started.
sub next_line {
	while ($waiting !~ m{\n}) {
		last unless sysread STDIN, $waiting, 4096, length $waiting;
	}
	return undef unless length $waiting;
	$waiting =~ s{\A([^\n]*)\n?}{};
	return $1;
}

# Prints the failure of a command: a text, or { code, text } of Talk::fail.
sub complain {
	my ($error) = @_;
	print STDERR 'jeprof: ', ref $error ? Talk::clean_lines($error->{text}) : $error, "\n";
}

# Does one command: takes its options out of the line. They do not last until the next command. The
# --cum of the command line has no effect on a command; its --focus has, unless the command names
# another, but on list, disasm and weblist none (Source::line_sums).
sub command {
	my ($work, $line) = @_;
	my ($name, @words) = split ' ', $line;
	return unless defined $name;
	my $option = { %{ $work->{option} }, cum => 0 };
	my (@plain, @without);
	for my $word (@words) {
		if ($word =~ /^--?(cum|lines|files|functions|addresses)$/) {
			if ($1 eq 'cum') { $option->{cum} = 1 } else { $option->{grain} = $1 }
		} elsif ($word =~ /^-(.+)/) {
			push @without, $1;
		} else {
			push @plain, $word;
		}
	}
	$option->{ignore} = join '|', grep { length } $option->{ignore}, @without;
	dispatch($work, $option, $name, @plain);
}

# Does the command whose name is the beginning of $name ("top" for "top5"); @plain are the words
# behind it. Of those "top" takes only a number that comes first, "text" none.
sub dispatch {
	my ($work, $option, $name, @plain) = @_;
	my $pattern = join '|', @plain;
	my $focus = length $pattern ? $pattern : $option->{focus};
	if ($name =~ /^(top|text)(\d*)/) {
		my $limit = length $2 ? $2 : $1 eq 'top' && @plain && $plain[0] =~ /^\d+$/ ? $plain[0]
		    : $1 eq 'top' ? 10 : undef;
		$option->{mode} = 'text';
		Print::table(told($work, $option), $limit);
	} elsif ($name =~ /^(list|disasm)/) {
		$option->{grain} = 'addresses' if $1 eq 'list';
		my $print = $1 eq 'list' ? \&Source::list : \&Source::disasm;
		$print->(view($work, $option), $pattern);
	} elsif ($name =~ /^callgrind/) {
		my $file = shift(@plain) // Talk::fail(2,
			'callgrind: the name of the file to write is missing');
		$option->{focus} = join '|', @plain if @plain;
		$option->{mode} = 'callgrind'; # Main::wants_lines: this form shows lines
		write_callgrind(told($work, $option), $file);
	} elsif ($name =~ /^tree/) {
		$option->{focus} = $focus;
		Export::collapsed(told($work, $option));
	} elsif ($name =~ /^help/) {
		print $help;
	} elsif ($name =~ /^weblist/) {
		$option->{grain} = 'addresses';
		Open::listing(view($work, $option), $pattern);
	} elsif (my ($viewer) = $name =~ /^(gv|web|evince)/) {
		@$option{qw(mode focus)} = ($viewer, $focus);
		my $view = told($work, $option);
		return Open::flame($view) if $viewer eq 'web';
		Open::graph($view, $viewer, $viewer eq 'gv' ? 'ps2' : 'pdf');
	} else {
		print STDERR "Unknown command: try 'help'.\n";
	}
}

# A view of Main, of all threads or of the one of --thread. Fails for means that would be added.
sub view {
	my ($work, $option) = @_;
	Contention::check_means($option);
	return Main::view($work, $option, $work->{only});
}

# A view, after printing its total and what focus and ignore left.
sub told {
	my ($work, $option) = @_;
	my $view = view($work, $option);
	my ($kept, $whole) = @{ $view->{sum} }{qw(kept total)};
	print Print::total_line($view->{sum}, $option, $view->{tag});
	for my $case (['focus', 'focusing on'], ['ignore', 'ignoring']) {
		next unless length $option->{ $case->[0] };
		print "After $case->[1] '$option->{$case->[0]}': ", Print::amount($kept, $option), ' ',
		    Print::unit($option),
		    ' of ', Print::amount($whole, $option), ' (', Print::percent($kept, $whole), ")\n";
	}
	return $view;
}

# Writes a view for callgrind_annotate, and says what to type next.
sub write_callgrind {
	my ($view, $file) = @_;
	Writing::file($file, Export::callgrind_text($view));
	print STDERR Talk::clean("Wrote $file; next: callgrind_annotate "
		    . Talk::word($file =~ s{^-}{./-}r)), "\n";
}
