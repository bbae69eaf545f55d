# Completion: the verb "completion": prints a script with which bash, zsh or fish completes verbs
# and options, made from the lists that --help and the parser are made of. Files complete as ever.
# Caller: Main.
package Completion;

# Shell => the sub that returns its script.
my %printer = (bash => \&bash, zsh => \&zsh, fish => \&fish);

# The verb; @arguments: the name of a shell.
sub command {
	my ($option, @arguments) = @_;
	my $print = @arguments == 1 ? $printer{ $arguments[0] } : undef;
	Talk::fail(2, 'completion takes the name of a shell: bash, zsh or fish') unless $print;
	print $print->();
}

# [verb, what it is for] of all verbs, those of jeprofctl too.
sub verbs {
	return ((map { [@$_[0, 3]] } @Main::verbs),
		map { [$_, 'of a running process (jeprofctl)'] } @Main::handed);
}

# The options that act for a verb, or for the legacy output modes (''), with their hyphens.
sub words_for {
	my ($verb) = @_;
	return map { length > 1 ? "--$_" : "-$_" } Options::names_for($verb);
}

# The words that can follow --to of export, and the verb completion.
my %values = ('--to' => [qw(pprof otlp speedscope dhat collapsed massif callgrind heap)],
	completion => [qw(bash zsh fish)]);

# One text: for each verb of jeprof the format $line, filled with the verb and its options; then
# once the format $none, filled with all verbs of jeprofctl, joined by "|": their options are not
# completed.
sub cases {
	my ($line, $none) = @_;
	return join '', (map { sprintf $line, $_->[0], join ' ', words_for($_->[0]) } @Main::verbs),
	    sprintf $none, join '|', @Main::handed;
}

# The script for bash.
sub bash {
	my $verbs = join ' ', map { $_->[0] } verbs();
	my $cases = cases("\t%s) words='%s' ;;\n", "\t%s) ;;\n");
	my $old = join ' ', words_for('');
	my $name = Talk::name();
	return <<"BASH";
# For bash: eval "\$($name completion bash)" in ~/.bashrc
_jeprof() {
	local current=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD-1]} words=
	COMPREPLY=()
	case \${COMP_WORDS[1]} in
$cases	*) words='$old' ;;
	esac
	if [ "\$COMP_CWORD" -eq 1 ]; then
		words="\$words $verbs"
	elif [ "\$before" = --to ] && [ "\${COMP_WORDS[1]}" = export ]; then
		words='@{ $values{'--to'} }'
	elif [ "\$before" = completion ]; then
		words='@{ $values{completion} }'
	elif [ "\${current#-}" = "\$current" ]; then
		return 0
	fi
	COMPREPLY=(\$(compgen -W "\$words" -- "\$current"))
}
complete -o bashdefault -o default -F _jeprof $name
BASH
}

# The script for zsh.
sub zsh {
	my $verbs = join ' ', map { quoted("$_->[0]:$_->[1]") } verbs();
	my $cases = cases("\t%s) compadd -- %s ;;\n", "\t%s) ;;\n");
	my $old = join ' ', words_for('');
	my $name = Talk::name();
	return <<"ZSH";
#compdef $name
# For zsh: $name completion zsh >_jeprof in a directory of \$fpath
_jeprof() {
	local -a verbs
	verbs=($verbs)
	if (( CURRENT == 2 )) && [[ \$PREFIX != -* ]]; then
		_describe verb verbs
		_files
	elif [[ \${words[CURRENT-1]} == --to && \${words[2]} == export ]]; then
		compadd @{ $values{'--to'} }
	elif [[ \${words[CURRENT-1]} == completion ]]; then
		compadd @{ $values{completion} }
	elif [[ \$PREFIX == -* ]]; then
	case \${words[2]} in
$cases	*) compadd -- $old ;;
	esac
	else
		_files
	fi
}
if [ "\$funcstack[1]" = _jeprof ]; then
	_jeprof "\$@"
else
	compdef _jeprof $name
fi
ZSH
}

# The script for fish.
sub fish {
	my $name = Talk::name();
	my $text = "# For fish: $name completion fish >~/.config/fish/completions/$name.fish\n";
	$text .= join '', map { "complete -c $name -n __fish_use_subcommand -a $_->[0] -d "
		    . quoted($_->[1]) . "\n" } verbs();
	my %verbs_of;
	push @{ $verbs_of{ $_->[1] } }, $_->[0]
	    for map { my $verb = $_->[0]; map { [$verb, $_] } words_for($verb) } @Main::verbs;
	for my $word (sort keys %verbs_of) {
		my $kind = $word =~ /^--/ ? '-l' : '-s';
		$text .= sprintf "complete -c $name -n '__fish_seen_subcommand_from %s' %s %s\n",
		    join(' ', @{ $verbs_of{$word} }), $kind, $word =~ s/^-+//r;
	}
	my $old = join '', map { sprintf "complete -c $name -n __fish_use_subcommand %s %s\n",
		    /^--/ ? '-l' : '-s', s/^-+//r } words_for('');
	my @last = map { sprintf "complete -c $name -n '__fish_seen_subcommand_from %s' %s -x -a '%s'\n",
		    @$_[0, 1], join ' ', @{ $values{ $_->[2] } } }
	    ['export', '-l to', '--to'], ['completion', '', 'completion'];
	return join '', $text, $old, @last;
}

# Puts a text in single quotes, for all three shells; it may have no backslash, which fish would
# read in another way.
sub quoted { return "'" . $_[0] =~ s/'/'\\''/gr . "'" }
